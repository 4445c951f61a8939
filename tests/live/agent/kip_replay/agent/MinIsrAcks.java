package kip_replay.agent;

import kafka.cluster.DelayedOperations;
import kafka.cluster.Partition;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.protocol.Errors;
import scala.Tuple2;

/**
 * KIP-926, with acks=all standing for acks=min.insync.replicas: "we wait for the number of
 * min.insync.replicas acknowledge, and then respond". The high watermark stays what it is.
 */
public final class MinIsrAcks {
    /** A request that would go on waiting is done if so many in-sync replicas have its records. */
    public static final class Enough {
        @Advice.OnMethodExit
        public static void checked(
                @Advice.This Partition partition,
                @Advice.Argument(0) long requiredOffset,
                @Advice.Return(readOnly = false) Tuple2<Object, Errors> result) {
            if (result.equals(new Tuple2<>(false, Errors.NONE)) && isEnough(partition, requiredOffset)) {
                result = new Tuple2<>(true, Errors.NONE);
            }
        }
    }

    /** Requests that wait are checked again, which only an advance of the high watermark did. */
    public static final class Fetched {
        @Advice.OnMethodExit
        public static void fetched(@Advice.FieldValue("delayedOperations") DelayedOperations waiting) {
            waiting.checkAndCompleteAll();
        }
    }

    public static boolean isEnough(Partition partition, long requiredOffset) {
        var inSync = partition.inSyncReplicaIds();
        int replicas = 1; // the leader has what it responds to
        int reached = 1;
        for (var followers = partition.remoteReplicas().iterator(); followers.hasNext(); replicas++) {
            var follower = followers.next();
            long endOffset = follower.stateSnapshot().logEndOffset();
            if (endOffset >= requiredOffset && inSync.contains(follower.brokerId())) {
                reached++;
            }
        }
        // As Partition.effectiveMinIsr has it.
        return reached >= Math.min(partition.localLogOrException().config().minInSyncReplicas, replicas);
    }
}
