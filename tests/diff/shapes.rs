//! Output formats.

use crate::support::Here;

fn here() -> Here {
    let here = Here::new();
    let stacks = |n: u64| {
        format!(
            "main;parse {n}\nmain;<b>bold</b> {}\nmain;rest 4000\n",
            2 * n
        )
    };
    std::fs::write(here.path("old"), stacks(1000)).unwrap();
    std::fs::write(here.path("new"), stacks(2000)).unwrap();
    here
}

#[test]
fn markdown_is_one_comment_without_markup_of_strangers() {
    let text = here()
        .rprof("diff old new --noise 1% --format markdown")
        .ok()
        .out();
    assert!(
        text.starts_with("<!-- rprof-diff -->\n**REGRESSED"),
        "{text}"
    );
    assert!(
        text.contains("<code>parse</code>") && text.contains("&lt;b&gt;bold"),
        "{text}"
    );
    assert!(!text.contains("<b>") && text.len() < 60_000);
}

#[test]
fn csv_has_a_row_for_each_function() {
    let text = here()
        .rprof("diff old new --noise 1% --format csv")
        .ok()
        .out();
    let mut csv = csv::Reader::from_reader(text.as_bytes());
    let head = csv.headers().unwrap().clone();
    let at = |name: &str| head.iter().position(|h| h == name).unwrap();
    let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 4);
    let parse = rows.iter().find(|row| &row[0] == "parse").unwrap();
    assert_eq!(
        [&parse[at("self_old")], &parse[at("self_new")]],
        ["1000", "2000"]
    );
    assert_eq!(&parse[at("self_verdict")], "regressed");
}

#[test]
fn rows_are_sorted_and_limited() {
    let here = here();
    let first = |arguments: &str| {
        let run = here
            .rprof(&format!("diff old new --all -q {arguments}"))
            .ok();
        run.out().lines().next().unwrap_or_default().to_owned()
    };
    assert!(first("").contains("<b>bold</b>"));
    assert!(first("--sort self").contains("rest") || first("--sort self").contains("bold"));
    assert!(first("--sort total").contains("main"));
    assert!(first("--sort name").contains("<b>bold</b>"));
    let limited = here.rprof("diff old new --all -n 1").ok().out();
    assert!(limited.contains("3 more (-n 0 for all)"), "{limited}");
}
