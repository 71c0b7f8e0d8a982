use super::*;

#[test]
fn each_reason_has_a_word() {
    let all = REASONS.iter().map(|(reason, _)| *reason);
    let all = all.chain([
        OFF_CPU,
        PAGE_FAULT,
        crate::waits::NO_STACK,
        crate::waits::idle::IDLE,
    ]);
    for reason in all {
        let words = WORDS.iter().filter(|word| is_reason(word, reason));
        assert_eq!(words.count(), 1, "{reason}");
    }
}

#[test]
fn reasons_are_those_of_the_kernels_functions() {
    let sleeping = "schedule do_nanosleep hrtimer_nanosleep common_nsleep __x64_sys_clock_nanosleep do_syscall_64";
    for (chain, expected) in [
        (sleeping, "[sleep]"),
        (
            "schedule futex_do_wait __futex_wait futex_wait do_futex",
            "[futex]",
        ),
        (
            "schedule schedule_hrtimeout_range ep_poll do_epoll_wait",
            "[poll]",
        ),
        ("schedule anon_pipe_read vfs_read ksys_read", "[pipe]"),
        ("schedule pipe_read.part.0 vfs_read", "[pipe]"),
        ("schedule do_wait kernel_wait4 do_syscall_64", "[child]"),
        (
            "schedule schedule_timeout unix_stream_read_generic sock_recvmsg",
            "[socket]",
        ),
        (
            "schedule schedule_timeout wait_woken sk_wait_data tcp_recvmsg_locked",
            "[socket]",
        ),
        (
            "schedule schedule_timeout wait_woken n_tty_read iterate_tty_read tty_read",
            "[terminal]",
        ),
        ("wait_woken", "[off CPU]"),
        ("poll_schedule_timeout.constprop.0", "[poll]"),
        ("hrtimer_nanosleep", "[sleep]"),
        (
            "schedule io_schedule folio_wait_bit_common filemap_get_pages",
            "[disk]",
        ),
        (
            "schedule io_schedule folio_wait_bit_common filemap_fault __do_fault handle_mm_fault",
            "[page fault]",
        ),
        (
            "schedule schedule_preempt_disabled rwsem_down_read_slowpath down_read_killable do_user_addr_fault",
            "[page fault]",
        ),
        (
            "schedule schedule_preempt_disabled rwsem_down_write_slowpath down_write_killable vm_mmap_pgoff",
            "[kernel lock]",
        ),
        (
            "schedule schedule_timeout wait_for_completion affine_move_task",
            "[waiting for a CPU]",
        ),
        (
            "schedule exit_to_user_mode_loop do_syscall_64",
            "[waiting for a CPU]",
        ),
        (
            "get_signal arch_do_signal_or_restart exit_to_user_mode_loop do_syscall_64",
            "[stopped]",
        ),
        (
            "schedule __refrigerator get_signal arch_do_signal_or_restart exit_to_user_mode_loop",
            "[stopped]",
        ),
        (
            "schedule do_signal_stop get_signal arch_do_signal_or_restart exit_to_user_mode_loop",
            "[stopped]",
        ),
        (
            "schedule ptrace_stop ptrace_do_notify get_signal exit_to_user_mode_loop",
            "[stopped]",
        ),
        (
            "schedule coredump_task_exit do_exit do_group_exit get_signal exit_to_user_mode_loop",
            "[coredump_task_exit]",
        ),
        (
            "schedule schedule_timeout_killable __mem_cgroup_handle_over_high exit_to_user_mode_loop",
            "[__mem_cgroup_handle_over_high]",
        ),
        (
            "schedule io_schedule folio_wait_bit_common ext4_sync_file task_work_run exit_to_user_mode_loop",
            "[disk]",
        ),
        (
            "schedule irqentry_exit_to_user_mode asm_sysvec_apic_timer_interrupt",
            "[waiting for a CPU]",
        ),
        (
            "preempt_schedule_common __cond_resched vfs_write",
            "[waiting for a CPU]",
        ),
        (
            "schedule schedule_timeout wait_for_completion_state kernel_clone __do_sys_vfork",
            "[child]",
        ),
        (
            "schedule schedule_timeout odd_driver_wait",
            "[odd_driver_wait]",
        ),
        ("schedule", "[off CPU]"),
        ("", "[off CPU]"),
    ] {
        assert_eq!(reason(chain.split_whitespace()), expected, "{chain}");
    }
}

#[test]
fn what_the_kernel_does_not_tell_the_program_may() {
    for (names, expected) in [
        (
            "__futex_abstimed_wait_common pthread_cond_wait@@GLIBC_2.3.2 run",
            Some("[futex]"),
        ),
        (
            "__syscall_cancel_arch __internal_syscall_cancel __syscall_cancel poll main",
            Some("[poll]"),
        ),
        (
            "clock_nanosleep@@GLIBC_2.17 nanosleep sleep main",
            Some("[sleep]"),
        ),
        ("epoll_wait main", Some("[poll]")),
        ("__wait4 main", Some("[child]")),
        ("__libc_recv main", Some("[socket]")),
        ("runtime.futex.abi0 runtime.futexsleep", Some("[futex]")),
        (
            "internal/runtime/syscall.EpollWait runtime.netpoll",
            Some("[poll]"),
        ),
        ("a b c d e pthread_mutex_lock", None),
        ("compute poll", None),
        ("", None),
    ] {
        assert_eq!(
            reason_by_program(names.split_whitespace()),
            expected,
            "{names}"
        );
    }
}
