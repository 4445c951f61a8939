import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Producers that send at times fixed by a seed, whether the last record was acknowledged or not.
 *
 * <p>Arguments: bootstrap servers, seed, seconds, producers, records a second of each, file of what
 * they saw (client_latency.jsonl), topics. Every fifth producer has acks=1, the others acks=all.
 * Partitions are the seed's: Kafka's own choice prefers brokers that are fast, so that two runs
 * would differ in what each leader has to do. The times begin with a line of output.
 */
public final class Load {
  public static void main(String[] args) throws Exception {
    int seed = Integer.parseInt(args[1]);
    long endMs = 1000L * Integer.parseInt(args[2]);
    int producers = Integer.parseInt(args[3]);
    double perMs = Double.parseDouble(args[4]) / 1000;
    String[] topics = args[6].split(",");
    List<Thread> threads = new ArrayList<>();
    CountDownLatch ready = new CountDownLatch(producers);
    try (PrintWriter out = new PrintWriter(args[5])) {
      for (int i = 0; i < producers; i++) {
        int producer = i;
        Thread thread =
            new Thread(() -> send(args[0], seed, producer, ready, endMs, perMs, topics, out));
        thread.start();
        threads.add(thread);
      }
      ready.await();
      System.out.println("all are connected");
      for (Thread thread : threads) {
        thread.join();
      }
    }
  }

  private static void send(
      String servers, int seed, int producer, CountDownLatch ready, long endMs, double perMs,
      String[] topics, PrintWriter out) {
    Random random = new Random(1000L * seed + producer);
    String acks = producer % 5 == 4 ? "1" : "all";
    Map<String, Object> settings =
        Map.of("bootstrap.servers", servers, "client.id", "load-" + producer, "acks", acks,
            "key.serializer", ByteArraySerializer.class, "linger.ms", 0,
            "value.serializer", ByteArraySerializer.class, "request.timeout.ms", 15_000,
            "delivery.timeout.ms", 30_000);
    try (KafkaProducer<byte[], byte[]> sender = new KafkaProducer<>(settings)) {
      for (String topic : topics) {
        sender.partitionsFor(topic);
      }
      ready.countDown();
      ready.await();
      long startMs = System.currentTimeMillis();
      double dueMs = 0;
      while ((dueMs -= Math.log(1 - random.nextDouble()) / perMs) < endMs) {
        Thread.sleep(Math.max(startMs + (long) dueMs - System.currentTimeMillis(), 0));
        String topic = topics[random.nextInt(topics.length)];
        byte[] value = new byte[50 + random.nextInt(1000)];
        long atMs = System.currentTimeMillis();
        long began = System.nanoTime();
        // A topic that was deleted is created again, with fewer.
        int partition = random.nextInt(1 << 20) % sender.partitionsFor(topic).size();
        sender.send(new ProducerRecord<>(topic, partition, null, value), (sent, error) -> {
          double ms = (System.nanoTime() - began) / 1e6;
          String text = "{\"producer\": %d, \"topic\": \"%s\", \"partition\": %d, \"acks\": \"%s\","
              + " \"at\": %.3f, \"ms\": %.3f, \"offset\": %d, \"error\": [%s]}%n";
          String name = error == null ? "" : '"' + error.getClass().getSimpleName() + '"';
          synchronized (out) {
            out.printf(text, producer, topic, error == null ? sent.partition() : -1, acks,
                atMs / 1000.0, ms, error == null ? sent.offset() : -1, name);
          }
        });
      }
    } catch (InterruptedException stopped) {
      throw new IllegalStateException(stopped);
    }
  }
}
