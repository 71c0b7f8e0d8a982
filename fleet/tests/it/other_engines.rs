//! Other engines on the same files.

use std::process::Command;

use rprof_testing::{needs, oracles};

use crate::support::{SUMS, Scene, finish};

/// Queries the folder with DuckDB, with the views of `schema --ddl duckdb`. Returns CSV.
fn by_duckdb(scene: &Scene, query: &str) -> String {
    let (views, _) = scene.run("schema --ddl duckdb");
    let script = "import duckdb, sys, csv\n\
        duckdb.execute(sys.argv[1])\n\
        found = duckdb.execute(sys.argv[2])\n\
        out = csv.writer(sys.stdout, lineterminator='\\n')\n\
        out.writerow([column[0] for column in found.description])\n\
        out.writerows(found.fetchall())\n";
    let python = oracles().expect("it was asked for").join("python");
    let mut command = Command::new("python3");
    command
        .env("PYTHONPATH", python)
        .args(["-c", script, &views, query]);
    finish(&mut command).0
}

#[test]
fn duckdb_answers_the_same() {
    needs!(Oracles, Tool("python3"));
    let scene = Scene::of_hosts(10, 2);
    assert_eq!(by_duckdb(&scene, SUMS), scene.sql(SUMS));
    // Leaf functions by name, joined over stacks and frames.
    let leaves = "SELECT f.lines[1]['function'] AS name, sum(s.value) AS amount FROM samples s \
        JOIN stacks k ON s.stack_id = k.stack_id JOIN frames f ON f.location_id = k.location_ids[1] \
        GROUP BY 1 ORDER BY 2 DESC, 1";
    let found = scene.sql(leaves);
    assert!(found.lines().count() > 50, "{found}");
    assert_eq!(by_duckdb(&scene, leaves), found);
    // Also after compaction, when the inputs are deleted.
    scene.run("compact");
    scene.run("compact --grace 0");
    assert_eq!(by_duckdb(&scene, leaves), found);
    assert_eq!(scene.sql(leaves), found);
}
