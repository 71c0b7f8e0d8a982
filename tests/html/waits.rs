//! Time line of a page with waits that began before the recording.

use super::browser::Browser;
use crate::support::{Here, c, needs, wait_until};

#[test]
fn waits_that_began_before_the_recording_are_spread_over_all_of_the_time_line() {
    needs!(PerfEvents, Root, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    let mut asleep = here.command(c("asleep.c")).start();
    assert_eq!(asleep.line(), "asleep");
    let pid = asleep.pid().as_raw_nonzero();
    wait_until("it sleeps", || {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall"));
        call.is_ok_and(|line| !line.starts_with("running"))
    });
    let shell = here.rprof("record -q --off-cpu -d 1 -p");
    shell.arg(pid.to_string()).ok();
    asleep.signal(rustix::process::Signal::KILL);
    asleep.end();
    for flag in ["--off-cpu", "--wall"] {
        here.rprof("html -q --no-fold-idle").words(flag).ok();
        let browser = Browser::start(&here, 1300, 800);
        browser.open(&here.path("profile.html"));
        let tenths = browser.run(
            "const {time, weight} = rprof.profile.rows;
            const last = time.reduce((most, at) => Math.max(most, at), 1);
            const sums = new Array(10).fill(0);
            for (let row = 0; row < time.length; row++)
                sums[Math.min(9, Math.floor(time[row] * 10 / last))] += weight[row];
            const all = sums.reduce((sum, part) => sum + part, 0);
            return sums.map(part => part / all)",
        );
        let tenths: Vec<f64> = (tenths.as_array().expect("sums").iter())
            .map(|share| share.as_f64().expect("a number"))
            .collect();
        assert_eq!(tenths.len(), 10);
        for share in &tenths {
            assert!((0.05..0.2).contains(share), "{flag}: {tenths:?}");
        }
    }
}
