//! Deletion of old dates.

use crate::hosts::{Plan, write};
use crate::support::Scene;

#[test]
fn dates_before_are_dropped_and_others_stay() {
    let scene = Scene::of_hosts(2, 1);
    let now = chrono::Utc::now().timestamp();
    let plan = Plan {
        hosts: 2,
        minutes: 1,
        hour: now - now % 3_600,
        ..Plan::default()
    };
    write(scene.path(), &plan).expect("tables");
    let note = scene.path().join("samples/date=2023-11-14/README");
    std::fs::write(&note, "x").expect("written");
    let all = scene.sql("SELECT count(DISTINCT \"date\") AS n FROM samples");
    let (_, told) = scene.run("retain --days 30 --dry-run");
    assert!(
        told.contains("12 files")
            && told.contains("would be deleted")
            && told.contains("2023-11-14"),
        "{told}"
    );
    assert_eq!(
        scene.sql("SELECT count(DISTINCT \"date\") AS n FROM samples"),
        all
    );
    scene.run("retain --days 30");
    assert_eq!(
        scene.sql("SELECT count(DISTINCT \"date\") AS n FROM samples"),
        "n\n1\n"
    );
    assert!(note.exists());
    assert_eq!(scene.files("stacks").len(), 2);
}
