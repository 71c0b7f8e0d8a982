//! [`reason`]: derives wait reasons from stacks.

use std::borrow::Cow;

use crate::pattern::matches_name;

/// Wait without further information.
pub(crate) const OFF_CPU: &str = "[off CPU]";

/// Wait of a runnable thread for a CPU.
pub const WAITING_FOR_CPU: &str = "[waiting for a CPU]";

/// Word for time on CPU.
pub const RUNNING: &str = "running";

/// Words of thread states: time on CPU, wait reasons, idle threads.
pub const WORDS: &[&str] = &[
    RUNNING,
    "cpu",
    "futex",
    "kernel-lock",
    "disk",
    "page-fault",
    "socket",
    "pipe",
    "poll",
    "sleep",
    "child",
    "terminal",
    "message",
    "signal",
    "io_uring",
    "stopped",
    "kernel-thread",
    "stack-not-taken",
    "off-cpu",
    "idle",
];

/// Takes precedence over the disk or lock behind it.
const PAGE_FAULT: &str = "[page fault]";

/// Scheduler functions, at the leaf of all waits. A trailing `*` matches any suffix.
const SCHEDULER: &[&str] = &[
    "__schedule",
    "schedule",
    "schedule_timeout*",
    "schedule_hrtimeout*",
    "schedule_preempt_disabled",
    "__cond_resched",
    "wait_for_completion*",
    "__wait_for_common",
    "do_wait_for_common",
    "wait_woken",
];

/// Page fault handlers.
const FAULTS: &[&str] = &[
    "handle_mm_fault",
    "exc_page_fault",
    "do_user_addr_fault",
    "do_page_fault",
];

/// Reasons by functions that call the scheduler themselves. What they call besides has reasons of
/// its own: the way out of the kernel handles signals, which end or freeze the thread, and limits of
/// memory. Linux 6.18 inlines `do_freezer_trap` into `get_signal`.
const REASONS_OF_DIRECT: &[(&str, &[&str])] = &[
    (
        WAITING_FOR_CPU,
        &[
            "exit_to_user_mode*",
            "do_notify_resume",
            "irqentry_exit*",
            "syscall_exit_to_user_mode*",
        ],
    ),
    ("[stopped]", &["get_signal"]),
];

/// Reasons, by the innermost matching kernel function.
const REASONS: &[(&str, &[&str])] = &[
    (
        WAITING_FOR_CPU,
        &[
            "preempt_schedule*",
            "__cond_resched",
            "_cond_resched",
            "raw_irqentry_exit_cond_resched",
            "do_sched_yield",
            "__do_sys_sched_yield",
            "yield",
            "affine_move_task",
            "stop_one_cpu",
            "el0_interrupt",
            "arm64_preempt_schedule_irq",
        ],
    ),
    ("[futex]", &["futex_*", "do_futex", "__futex_*"]),
    (
        "[poll]",
        &[
            "ep_poll",
            "do_epoll_wait",
            "do_sys_poll",
            "do_poll*",
            "do_select",
            "poll_schedule_timeout*",
            "core_sys_select",
        ],
    ),
    (
        "[sleep]",
        &[
            "do_nanosleep",
            "hrtimer_nanosleep",
            "common_nsleep*",
            "timerfd_read*",
            "msleep*",
            "usleep_range*",
        ],
    ),
    (
        "[pipe]",
        &[
            "pipe_read",
            "pipe_write",
            "pipe_wait*",
            "anon_pipe_read",
            "anon_pipe_write",
            "fifo_open",
            "wait_for_partner",
        ],
    ),
    (
        "[socket]",
        &[
            "sk_wait_data",
            "sk_stream_wait_*",
            "inet_csk_accept",
            "inet_csk_wait_*",
            "inet_wait_for_connect",
            "unix_stream_*",
            "unix_dgram_*",
            "unix_wait_for_peer",
            "unix_accept",
            "__skb_wait_for_more_packets",
            "__skb_recv_*",
            "sock_alloc_send_pskb",
            "tcp_recvmsg*",
            "netlink_recvmsg",
        ],
    ),
    (
        "[child]",
        &[
            "do_wait",
            "kernel_wait4",
            "__do_wait",
            "kernel_clone",
            "wait_for_vfork_done",
        ],
    ),
    (
        "[kernel lock]",
        &[
            "rwsem_*",
            "__rwsem_*",
            "down_*",
            "__down*",
            "mutex_lock*",
            "__mutex_lock*",
            "rt_mutex_*",
            "__rt_mutex_*",
            "percpu_rwsem_wait",
            "synchronize_rcu*",
            "__wait_rcu_gp",
        ],
    ),
    (
        "[io_uring]",
        &["io_cqring_*", "io_uring_*", "io_wq_worker", "io_sq_thread"],
    ),
    ("[terminal]", &["n_tty_read", "n_tty_write", "tty_*"]),
    (
        "[signal]",
        &[
            "do_sigtimedwait*",
            "sigsuspend",
            "__do_sys_pause",
            "__x64_sys_pause",
            "do_sigwait*",
        ],
    ),
    (
        "[stopped]",
        &[
            "do_signal_stop",
            "ptrace_stop",
            "do_jobctl_trap",
            "do_freezer_trap",
            "__refrigerator",
        ],
    ),
    (
        "[message]",
        &[
            "do_msgrcv",
            "do_msgsnd",
            "do_semtimedop",
            "wq_sleep",
            "eventfd_read",
            "signalfd_dequeue*",
            "inotify_read",
        ],
    ),
    (
        "[disk]",
        &[
            "io_schedule*",
            "folio_wait_*",
            "__folio_lock*",
            "filemap_*",
            "wait_on_page_*",
            "__wait_on_buffer",
            "wait_on_buffer",
            "submit_bio_wait",
            "blk_mq_*",
            "blkdev_*",
            "rq_qos_wait",
            "balance_dirty_pages*",
            "__iomap_dio_rw",
            "__blockdev_direct_IO",
            "jbd2_*",
            "xlog_*",
            "ext4_*",
            "xfs_*",
            "btrfs_*",
            "fuse_*",
            "request_wait_answer",
            "nfs_*",
            "rpc_wait_*",
        ],
    ),
    (
        "[kernel thread]",
        &[
            "worker_thread",
            "kthread*",
            "smpboot_thread_fn",
            "rcu_gp_*",
            "kswapd*",
            "ret_from_fork*",
        ],
    ),
];

/// System call wrappers, without leading underscores.
const CALLERS_OF_SYSTEM: &[&str] = &["syscall", "syscall_cancel*", "internal_syscall_cancel*"];

/// Reasons by system call function, without leading underscores. Only leaves count: programs reuse
/// such names.
const REASONS_OF_CALLS: &[(&str, &[&str])] = &[
    (
        "[poll]",
        &[
            "poll",
            "libc_poll",
            "ppoll*",
            "libc_ppoll",
            "select",
            "libc_select",
            "pselect*",
            "epoll_wait*",
            "epoll_pwait*",
        ],
    ),
    (
        "[sleep]",
        &["nanosleep*", "libc_nanosleep", "clock_nanosleep*"],
    ),
    (
        "[child]",
        &[
            "wait3*",
            "wait4*",
            "waitpid",
            "libc_wait*",
            "waitid",
            "vfork",
        ],
    ),
    (
        "[socket]",
        &[
            "recv",
            "recvfrom",
            "recvmsg",
            "recvmmsg*",
            "libc_recv*",
            "send",
            "sendto",
            "sendmsg",
            "sendmmsg*",
            "libc_send*",
            "accept",
            "accept4",
            "libc_accept*",
            "connect",
            "libc_connect*",
        ],
    ),
    (
        "[signal]",
        &[
            "sigwait*",
            "sigtimedwait*",
            "rt_sigtimedwait",
            "sigsuspend*",
            "pause",
            "libc_pause",
        ],
    ),
    (
        "[message]",
        &["msgrcv", "msgsnd", "semop", "semtimedop*", "mq_timed*"],
    ),
    (
        "[disk]",
        &[
            "fsync",
            "libc_fsync",
            "fdatasync",
            "msync",
            "libc_msync",
            "sync",
            "syncfs",
        ],
    ),
];

/// Reasons by functions that block in one way only, without leading underscores.
const REASONS_OF_FUNCTIONS: &[(&str, &[&str])] = &[
    (
        "[futex]",
        &[
            "lll_lock_wait*",
            "lll_lock_timedwait*",
            "futex_wait*",
            "futex_abstimed_wait*",
            "futex_lock_pi*",
            "pthread_mutex_lock*",
            "pthread_mutex_timedlock*",
            "pthread_mutex_clocklock*",
            "pthread_cond_wait*",
            "pthread_cond_timedwait*",
            "pthread_cond_clockwait*",
            "pthread_rwlock_*lock*",
            "pthread_barrier_wait*",
            "pthread_join",
            "pthread_timedjoin*",
            "pthread_clockjoin*",
            "sem_wait*",
            "sem_timedwait*",
            "sem_clockwait*",
            "new_sem_wait*",
            "runtime.futex*",
            "std::sys::*::futex_wait",
        ],
    ),
    (
        "[poll]",
        &["runtime.epollwait*", "*runtime/syscall.EpollWait*"],
    ),
    ("[sleep]", &["runtime.usleep*"]),
    (
        "[io_uring]",
        &[
            "io_uring_enter*",
            "io_uring_wait_*",
            "io_uring_submit_and_wait*",
        ],
    ),
];

/// Maximum number of user-space functions to examine from the leaf on.
const MAX_OUTWARDS: usize = 5;

/// Derives the wait reason, in brackets, from user-space functions, leaf first. `None` if
/// ambiguous.
///
/// # Examples
/// ```
/// use rprof_profile::waits::reasons::reason_by_program;
///
/// let of_mutex = ["__lll_lock_wait", "pthread_mutex_lock@@GLIBC_2.2.5", "take", "main"];
/// assert_eq!(reason_by_program(of_mutex), Some("[futex]"));
/// assert_eq!(reason_by_program(["read", "main"]), None); // Of a pipe, a socket, a disk?
/// assert_eq!(reason_by_program(["read", "poll", "main"]), None); // Somebody's own `poll`.
/// ```
pub fn reason_by_program<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<&'static str> {
    let plain = |name: &'a str| {
        name.split('@')
            .next()
            .unwrap_or(name)
            .trim_start_matches('_')
    };
    let find = |reasons: &[(&'static str, &[&str])], name: &str| {
        let is_it = |of: &[&str]| of.iter().any(|pattern| matches_name(pattern, name));
        reasons
            .iter()
            .find(|(_, of)| is_it(of))
            .map(|(reason, _)| *reason)
    };
    let mut is_leaf = true;
    names.into_iter().take(MAX_OUTWARDS).find_map(|name| {
        let name = plain(name);
        let found = match is_leaf {
            true => find(REASONS_OF_CALLS, name),
            false => None,
        };
        is_leaf &= CALLERS_OF_SYSTEM
            .iter()
            .any(|pattern| matches_name(pattern, name));
        found.or_else(|| find(REASONS_OF_FUNCTIONS, name))
    })
}

fn is_one_of(name: &str, patterns: &[&str]) -> bool {
    patterns
        .iter()
        .any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *pattern,
        })
}

fn plain(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Derives the wait reason, in brackets, from kernel functions, leaf first. Falls back to the
/// innermost function outside the scheduler.
///
/// # Examples
/// ```
/// use rprof_profile::waits::reasons::reason;
///
/// let of_mutex = ["schedule", "futex_wait_queue", "futex_wait", "do_futex", "do_syscall_64"];
/// assert_eq!(reason(of_mutex), "[futex]");
/// assert_eq!(reason(["schedule", "odd_wait", "do_syscall_64"]), "[odd_wait]");
/// ```
pub fn reason<'a>(kernel: impl IntoIterator<Item = &'a str>) -> Cow<'static, str> {
    let names: Vec<&str> = kernel.into_iter().map(plain).collect();
    let find = |reasons: &[(&'static str, &[&str])], name: &str| {
        let mut reasons = reasons.iter();
        let (reason, _) = reasons.find(|(_, of)| is_one_of(name, of))?;
        Some(*reason)
    };
    let own = (names.iter()).find(|name| !is_one_of(name, SCHEDULER));
    let found = (names.iter().find_map(|name| find(REASONS, name)))
        .or_else(|| find(REASONS_OF_DIRECT, own?));
    let is_fault = names.iter().any(|name| is_one_of(name, FAULTS));
    match found {
        Some("[disk]" | "[kernel lock]" | "[kernel thread]") | None if is_fault => {
            PAGE_FAULT.into()
        }
        Some(reason) => reason.into(),
        None => own.map_or(OFF_CPU.into(), |own| format!("[{own}]").into()),
    }
}

/// Converts a reason to a word: `kernel-lock` for `[kernel lock]`, `cpu` for waiting for a CPU.
fn word(name: &str) -> String {
    let spelled = |name: &str| {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        bare.trim().to_lowercase().replace(' ', "-")
    };
    match spelled(name) {
        word if word == spelled(WAITING_FOR_CPU) => "cpu".to_owned(),
        word => word,
    }
}

/// Returns true for reasons with a word: `[futex]`, `[waiting for a CPU]`.
pub fn is_known(name: &str) -> bool {
    let is_name = |name: &str| name.starts_with('[') && name.ends_with(']');
    is_name(name) && WORDS.contains(&&*word(name))
}

/// Returns true if a reason matches a word or [pattern](crate::pattern): as displayed, or without
/// brackets and with `-` for spaces.
///
/// # Examples
/// ```
/// use rprof_profile::waits::reasons::is_reason;
///
/// for word in ["kernel-lock", "[kernel lock]", "kernel*"] {
///     assert!(is_reason(word, "[kernel lock]"), "{word}");
/// }
/// assert!(is_reason("cpu", "[waiting for a CPU]"));
/// assert!(!is_reason("futex", "[disk]"));
/// ```
pub fn is_reason(pattern: &str, reason: &str) -> bool {
    matches_name(&word(pattern), &word(reason))
}

#[cfg(test)]
mod tests;
