use super::*;

#[test]
fn frames_in_place_of_unknown_functions_are_those_of_the_recorder() {
    use rprof_interpreters::{
        FROZEN_JAVA_CALLERS, JAVA_STUB, UNNAMED_JAVA, UNNAMED_JAVASCRIPT, UNNAMED_PYTHON,
        UNPROVEN_CALLERS,
    };

    assert_eq!(gap(UNPROVEN_CALLERS), Some(Language::Python));
    assert_eq!(gap(UNNAMED_PYTHON), Some(Language::Python));
    assert_eq!(gap(UNNAMED_JAVASCRIPT), Some(Language::JavaScript));
    assert_eq!(gap(UNNAMED_JAVA), Some(Language::Java));
    assert_eq!(gap(FROZEN_JAVA_CALLERS), Some(Language::Java));
    assert_eq!(gap("[jit]"), None);
    assert_eq!(java::JAVA_STUB, JAVA_STUB);
}

fn parts(name: &str) -> (Language, &str, &str, u32, u32, bool) {
    let n = SourceName::parse(name).unwrap_or_else(|| panic!("{name}"));
    (n.language, n.name, n.file, n.line, n.column, n.is_of_code)
}

#[test]
fn names_of_python_have_a_file_and_perhaps_a_line() {
    use Language::Python;
    for (name, expected) in [
        ("py::f:/x/app.py", (Python, "f", "/x/app.py", 0, 0, true)),
        (
            "py::A.f:/x/app.py:12",
            (Python, "A.f", "/x/app.py", 12, 0, false),
        ),
        (
            "py::a.<locals>.<lambda>:<string>:1",
            (Python, "a.<locals>.<lambda>", "<string>", 1, 0, false),
        ),
        (
            "py::f:<frozen importlib._bootstrap>",
            (Python, "f", "<frozen importlib._bootstrap>", 0, 0, true),
        ),
        ("py::f", (Python, "f", "", 0, 0, true)),
        ("py::", (Python, "", "", 0, 0, true)),
        (
            "py::f:C:9999999999",
            (Python, "f", "C:9999999999", 0, 0, true),
        ),
    ] {
        assert_eq!(parts(name), expected, "{name}");
    }
}

#[test]
fn names_of_v8_have_a_tier_and_a_place() {
    use Language::JavaScript as Js;
    for (name, expected) in [
        (
            "JS:*fib /x/app.js:7:13",
            (Js, "fib", "/x/app.js", 7, 13, true),
        ),
        (
            "JS:fib /x/app.js:7:13",
            (Js, "fib", "/x/app.js", 7, 13, false),
        ),
        ("JS:~ node:zlib:1:1", (Js, "", "node:zlib", 1, 1, true)),
        (
            "LazyCompile:~get a /my app/x.js:4:95",
            (Js, "get a", "/my app/x.js", 4, 95, true),
        ),
        (
            "Script:~ file:///x.mjs:1:1",
            (Js, "", "file:///x.mjs", 1, 1, true),
        ),
        (
            "JS:f evalmachine.<anonymous>:1:2",
            (Js, "f", "evalmachine.<anonymous>", 1, 2, false),
        ),
        (
            "JS:GET\u{a0}/users /app.js:1:2",
            (Js, "GET\u{a0}/users", "/app.js", 1, 2, false),
        ),
        (
            "JS:f [worker\u{a0}eval]:1:2",
            (Js, "f", "[worker\u{a0}eval]", 1, 2, false),
        ),
        ("Function:^f", (Js, "f", "", 0, 0, true)),
        ("JS:o*f /x.js:1:2", (Js, "f", "/x.js", 1, 2, true)),
        ("JS:o+of /x.js:1:2", (Js, "of", "/x.js", 1, 2, true)),
        ("JS:*'f /x.js:1:2", (Js, "f", "/x.js", 1, 2, true)),
    ] {
        assert_eq!(parts(name), expected, "{name}");
    }
    for name in ["JS::Call", "main", "Jarvis", "RegExp:[a-z]+", ""] {
        assert_eq!(SourceName::parse(name), None, "{name}");
    }
}

#[test]
fn names_of_javascriptcore_have_a_compiler_and_a_hash() {
    for (name, text) in [
        ("JSC-FTL: fib#CPBdlN", Some("fib")),
        ("JSC-DFG: fib#CPBdlN", Some("fib")),
        ("JSC-Baseline: #secret#CPBdlN", Some("#secret")),
        ("JSC-FTL: #BuF5QV", Some("#BuF5QV")),
        ("JSC-DFG: /x/app.js#AEJts6", Some("(anonymous) (app.js)")),
        ("JSC-DFG: /x/a#b.js#AEJts6", Some("(anonymous) (a#b.js)")),
        ("JSC-FTL: f", Some("f")),
        ("JSC-InlineCache: GetById Load handler", None),
        ("JSC-Thunk: DefaultCall", None),
        ("JSC-LLIntThunk: arityFixup", None),
    ] {
        let source = SourceName::parse(name);
        assert_eq!(
            source.map(|source| source.text(0)).as_deref(),
            text,
            "{name}"
        );
        assert_eq!(is_generated_plumbing(name, None), text.is_none(), "{name}");
    }
    assert!(!is_generated_plumbing("main", None));
}

#[test]
fn texts_have_the_shortest_place_that_says_something() {
    for (name, text) in [
        ("py::f:/x/app.py:12", "f (app.py:12)"),
        ("py::f:/x/app.py", "f (app.py)"),
        (
            "py::loads:/usr/lib/python3/json/__init__.py:9",
            "loads (json/__init__.py:9)",
        ),
        ("py::f:<frozen runpy>:3", "f (<frozen runpy>:3)"),
        ("JS:*fib /x/app.js:7:13", "fib (app.js:7:13)"),
        (
            "JS:~ node:internal/fs/utils:1:1",
            "(anonymous) (node:internal/fs/utils:1:1)",
        ),
        ("JS:f file:///x/a.mjs:1:2", "f (a.mjs:1:2)"),
        ("py::f", "f"),
    ] {
        let source = SourceName::parse(name).unwrap();
        assert_eq!(source.text(0), text);
        if text.contains(" (") {
            let place = place_of_text(text);
            let at = text.rfind(" (").unwrap();
            assert_eq!(place, Some((source.language, at)), "{text}");
        }
    }
    let long = SourceName::parse("py::f:/x/y/app.py:12").unwrap();
    assert_eq!(long.text(2), "f (y/app.py:12)");
    assert_eq!(long.text(9), "f (/x/y/app.py:12)");
    for name in [
        "f (int)",
        "f (parser.rs:12)",
        "f(a.py)",
        " (a.py)",
        "(a.py)",
        "f (a.java)",
    ] {
        assert_eq!(place_of_text(name), None, "{name}");
    }
}

#[test]
fn added_methods_of_java_have_a_file_and_a_line() {
    use Language::Java;
    for (name, expected) in [
        (
            "Java:java.lang.String.hashCode String.java:1536",
            (
                Java,
                "java.lang.String.hashCode",
                "String.java",
                1536,
                0,
                false,
            ),
        ),
        (
            "Java:java.lang.Thread.sleep Thread.java",
            (Java, "java.lang.Thread.sleep", "Thread.java", 0, 0, false),
        ),
        (
            "Java:a.B.a test of B.kt:3",
            (Java, "a.B.a test of", "B.kt", 3, 0, false),
        ),
        ("Java:$Proxy0.area", (Java, "$Proxy0.area", "", 0, 0, false)),
    ] {
        assert_eq!(parts(name), expected, "{name}");
    }
    let text = |name| SourceName::parse(name).map(|source| source.text(0));
    assert_eq!(
        text("Java:a.B.a test B.kt:3").as_deref(),
        Some("a.B.a test (B.kt:3)")
    );
    assert_eq!(text("Java::f"), None);
}

#[test]
fn methods_of_java_have_one_key_whoever_named_them() {
    let key = |name| {
        let source = SourceName::parse(name).or_else(|| java(name, Some(Runtime::Java)));
        source.map(|source| source.key().1.into_owned())
    };
    for (one, other) in [
        (
            "Java:java.util.TimSort.mergeHi TimSort.java:7",
            "void java.util.TimSort.mergeHi(int, int)",
        ),
        ("Java:a.B.c B.java:7", "La/B;c(I)V"),
        ("Java:a.B.c B.java:7", "La/B;::c"),
        (
            "Java:App$$Lambda$1.compare",
            "int App$$Lambda$1/0x7f.compare(java.lang.Object)",
        ),
    ] {
        assert_eq!(key(one), key(other), "{one}");
    }
}

#[test]
fn methods_of_java_are_told_from_stubs_by_the_process() {
    let of = |name, runtime| java(name, runtime).map(|source| source.bare());
    let jvm = Some(Runtime::Java);
    for (name, text) in [
        (
            "void java.util.TimSort.mergeHi(int, int)",
            "java.util.TimSort.mergeHi(int, int)",
        ),
        (
            "int App$$Lambda$1/0x7f.compare(java.lang.Object)",
            "App$$Lambda$1/0x7f.compare(java.lang.Object)",
        ),
        ("Ljava/lang/String;::hashCode", "java.lang.String.hashCode"),
        ("LWork;words(I)V", "Work.words(int)"),
        (
            "La/B;c([[ILjava/lang/String;Z)La/C;",
            "a.B.c(int[][], java.lang.String, boolean)",
        ),
        ("La/B;c(Q)V", "a.B.c"),
    ] {
        assert_eq!(of(name, jvm).as_deref(), Some(text));
    }
    for stub in [
        "StubRoutines (1)",
        "I2C/C2I adapters",
        "vtable stub",
        "DeoptimizationBlob",
        "Java stub: resolve_virtual_call",
    ] {
        assert_eq!(of(stub, jvm), None, "{stub}");
        assert!(is_generated_plumbing(stub, jvm), "{stub}");
    }
    for other in ["Interpreter", "com.foo.Bar.baz", "[I"] {
        assert_eq!(of(other, jvm), None, "{other}");
        assert!(!is_generated_plumbing(other, jvm), "{other}");
    }
    assert_eq!(of("void a.B.c(int)", None), None);
    assert!(!is_generated_plumbing("void a.B.c(int)", jvm));
}

#[test]
fn any_name_is_parsed_without_a_panic() {
    let pieces = [
        "py::",
        "JS:",
        ":",
        "*",
        " ",
        "/",
        "é",
        "(",
        ")",
        " (",
        ".py",
        "12",
        "node:",
        "<",
        ">",
        "file://",
        "L",
        ";::",
        ";",
        "[",
        "I",
        "f",
        "__init__.py",
        "Script:~",
        "JSC-FTL: ",
        "#",
        "Java:",
        "/0x",
    ];
    let mut random = rprof_testing::Random::new(11);
    for _ in 0..50_000 {
        let name: String = (0..random.index(9))
            .map(|_| pieces[random.index(pieces.len())])
            .collect();
        let sources = [SourceName::parse(&name), java(&name, Some(Runtime::Java))];
        for source in sources.into_iter().flatten() {
            for parts in [0, 1, 2, 40] {
                assert!(
                    !source.text(parts).is_empty() || source.name.is_empty(),
                    "{name}"
                );
            }
            source.key();
        }
        place_of_text(&name);
    }
}
