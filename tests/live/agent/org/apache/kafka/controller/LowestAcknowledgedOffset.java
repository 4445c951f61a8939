package org.apache.kafka.controller;

import kip_replay.agent.Agent;
import kip_replay.agent.Notes;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.controller.BrokerHeartbeatManager.BrokerHeartbeatState;

/**
 * Notes what the response to a heartbeat would carry under the draft, where Kafka makes it: broker,
 * its offset, the lowest offset of all unfenced brokers, and of those that are not shutting down
 * either (lowestActiveOffset); 2^63-1 where there is none.
 *
 * <p>In this package as the heartbeat manager is private to it.
 */
public final class LowestAcknowledgedOffset {
    @Advice.OnMethodExit
    public static void responded(
            @Advice.Argument(0) BrokerHeartbeatRequestData request,
            @Advice.FieldValue("clusterControl") ClusterControlManager cluster) {
        note(request, cluster.heartbeatManager());
    }

    public static void note(BrokerHeartbeatRequestData request, BrokerHeartbeatManager manager) {
        long lowest = Long.MAX_VALUE;
        try { // 3.9 does not have the method metadataOffset
            var offset = BrokerHeartbeatState.class.getDeclaredField("metadataOffset");
            offset.setAccessible(true);
            for (var broker : manager.brokers()) {
                lowest = broker.fenced() ? lowest : Math.min(lowest, offset.getLong(broker));
            }
        } catch (ReflectiveOperationException why) {
            throw Agent.stop("this Kafka has no offset of a broker: " + why);
        }
        Notes.add("lowest-acked", request.brokerId() + " " + request.currentMetadataOffset()
            + " " + lowest + " " + manager.lowestActiveOffset());
    }
}
