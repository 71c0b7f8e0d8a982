//! Exit statuses of commands, as a shell reports them.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rprof_launch::ExecError;

/// Returns a shell's exit status: 128 + N for signal N.
pub(crate) fn exit_status(status: ExitStatus) -> u8 {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Returns the exit status of a command that cannot be executed: 127 if missing, else 126.
pub(crate) fn of_exec(error: &ExecError) -> u8 {
    u8::try_from(error.exit_code()).unwrap_or(126)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_are_those_of_a_shell() {
        // As in wait(2): the status in the second byte, or the signal in the lowest.
        let of = |raw| exit_status(ExitStatus::from_raw(raw));
        assert_eq!([of(0), of(1 << 8), of(255 << 8)], [0, 1, 255]);
        assert_eq!([of(2), of(9), of(15)], [130, 137, 143]);
    }
}
