//! The page's core in Firefox: every view, the keyboard, sums, and hostile names.

use super::browser::Browser;
use super::{hostile, page, sums};
use crate::support::{Here, needs};

#[test]
fn in_firefox_no_view_breaks_a_rule_and_a_keyboard_is_enough() {
    needs!(PerfEvents, Tool("firefox-esr"));
    let here = Here::new();
    page::page(&here);
    let browser = Browser::start_firefox(&here, 1300, 800);
    browser.open(&here.path("profile.html"));
    page::through_every_view(&browser);
    let requests = browser.run("return performance.getEntriesByType('resource').length");
    assert_eq!(requests, 0);
    browser.open(&here.path("profile.html"));
    page::by_keyboard(&browser);
    // This must be reported as a violation.
    browser.run("const image = new Image(); image.src = 'http://127.0.0.1:9/x.png'; document.body.append(image)");
    crate::support::wait_until("a report of the policy", || {
        !browser.complaints().is_empty()
    });
}

#[test]
fn in_firefox_sums_of_random_selections_are_those_of_the_report() {
    needs!(PerfEvents, Tool("firefox-esr"));
    let here = Here::new();
    here.record("-g -F 2500", &crate::support::c("threads.c"), "0.3");
    here.rprof("html").ok();
    sums::random_selections(&here, &Browser::start_firefox(&here, 1300, 800), 20);
}

#[test]
fn in_firefox_hostile_names_are_text_in_every_view() {
    needs!(Tool("firefox-esr"));
    let here = Here::new();
    hostile::hostile_names(&here, &Browser::start_firefox(&here, 1300, 800));
}
