#!/usr/bin/env bash
# What a line of the request log takes to make: lines of a sample as JSON trees, each copied, made
# text and written through Log4j 2 as Kafka configures it, with the libraries that Kafka uses.
# tools/line_cost.sh [LOG.gz]: microseconds a line, in rounds of 3,000 lines; the last are warm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
gzip -dc "${1:-data/samples/acks-two-replicas/broker-11.log.gz}" | sed -n '1,3000s/^[^{]*\(.*}\) (.*/\1/p' \
    >"$folder/lines"
cat >"$folder/log4j2.yaml" <<EOF
Configuration:
  Appenders:
    RollingFile:
      - name: RequestAppender
        fileName: "$folder/kafka-request.log"
        filePattern: "$folder/kafka-request.log.%i.gz"
        PatternLayout: {pattern: "[%d] %p %m (%c)%n"}
        SizeBasedTriggeringPolicy: {size: "256 MB"}
  Loggers:
    Root: {level: DEBUG, AppenderRef: {ref: RequestAppender}}
EOF
cat >"$folder/rounds.jsh" <<EOF
import com.fasterxml.jackson.databind.*;
import java.nio.file.*;
import java.util.*;
import org.apache.logging.log4j.*;
Logger logger = LogManager.getLogger("kafka.request.logger");
ObjectMapper mapper = new ObjectMapper();
List<JsonNode> trees = new ArrayList<>();
for (String line : Files.readAllLines(Path.of("$folder/lines"))) trees.add(mapper.readTree(line));
double round() {
    long begin = System.nanoTime();
    for (JsonNode tree : trees) logger.debug("Completed request:" + tree.<JsonNode>deepCopy().toString());
    return (System.nanoTime() - begin) / 1e3 / trees.size();
}
for (int i = 0; i < 20; i++) System.out.printf("%.0f ", round());
System.out.println("us a line");
/exit
EOF
jars=$(.venv/bin/python -c 'import pyspark; print(pyspark.__path__[0])')/jars
libraries=("$jars"/log4j-{api,core}-* "$jars"/jackson-{core,databind,annotations,dataformat-yaml}-* "$jars"/snakeyaml-2*)
jshell --class-path "$(IFS=:; echo "${libraries[*]}")" -R-Dlog4j2.configurationFile="$folder/log4j2.yaml" \
    "$folder/rounds.jsh"
