package kip_replay.agent;

import net.bytebuddy.asm.Advice;

/** The proposal of tests/toy_rule: a FETCH of a follower or consumer waits a millisecond less. */
public final class OneMsSooner {
    @Advice.OnMethodExit
    public static void waited(@Advice.Return(readOnly = false) int maxWaitMs) {
        if (maxWaitMs > 0) {
            maxWaitMs = maxWaitMs - 1;
        }
    }
}
