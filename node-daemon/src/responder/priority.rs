//! The precedence of the thread of the segments: a right to speak is kept by being heard ten times a second.
//!
//! Among threads of the same weight the kernel lets a thread wait for tens of milliseconds, and a container
//! that asks for little processor time has the least weight of all. So the thread is made one of those
//! that run as soon as they have something to do, the last among them (SCHED_RR, priority 1). It seldom
//! has anything to do, and the kernel leaves others a twentieth of each second whatever such threads do.

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Gives this thread precedence, where that is permitted: it takes the capability SYS_NICE.
pub(super) fn raise() {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
    let raised = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy);
    if let Err(error) = raised {
        tracing::info!(
            %error,
            "the thread of the segments has no precedence over others: on a node without free processor \
             time it may lose its right to speak; the daemon needs the capability SYS_NICE, and with cgroup v1 on \
             a kernel with CONFIG_RT_GROUP_SCHED also cpu.rt_runtime_us of its cgroup"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use thread_priority::thread_schedule_policy;

    use super::*;

    const PRECEDENCE: ThreadSchedulePolicy =
        ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);

    #[test]
    fn raises_thread_priority_if_permitted() {
        let permitted = thread::spawn(|| {
            let this = thread_native_id();
            set_thread_priority_and_policy(this, ThreadPriority::Min, PRECEDENCE).is_ok()
        });
        let raised = thread::spawn(|| {
            raise();
            thread_schedule_policy().unwrap() == PRECEDENCE
        });
        assert_eq!(raised.join().unwrap(), permitted.join().unwrap());
    }
}
