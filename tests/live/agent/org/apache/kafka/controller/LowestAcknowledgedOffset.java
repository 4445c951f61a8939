package org.apache.kafka.controller;

import kip_replay.agent.Notes;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;

/**
 * Notes what the response to a heartbeat would carry under the draft, where Kafka makes it: broker,
 * its offset, the lowest offset of all that are unfenced and not shutting down; 2^63-1 without any.
 *
 * <p>In this package as the heartbeat manager is private to it.
 */
public final class LowestAcknowledgedOffset {
    @Advice.OnMethodExit
    public static void responded(
            @Advice.Argument(0) BrokerHeartbeatRequestData request,
            @Advice.FieldValue("clusterControl") ClusterControlManager cluster) {
        Notes.add("lowest-acked", request.brokerId() + " " + request.currentMetadataOffset()
            + " " + cluster.heartbeatManager().lowestActiveOffset());
    }
}
