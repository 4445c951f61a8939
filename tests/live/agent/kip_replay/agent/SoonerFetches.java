package kip_replay.agent;

import net.bytebuddy.asm.Advice;

/** The proposal of tests/toy_rule: a FETCH of a follower or consumer waits 100 ms less. */
public final class SoonerFetches {
    @Advice.OnMethodExit
    public static void waited(@Advice.Return(readOnly = false) int maxWaitMs) {
        maxWaitMs = Math.max(maxWaitMs - 100, Math.min(maxWaitMs, 1));
    }
}
