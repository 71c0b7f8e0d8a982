use super::*;

fn segment(offset: u64, svma: u64, size: u64, executable: bool) -> Segment {
    Segment {
        offset,
        file_size: size,
        svma,
        memory_size: size,
        align: 0x1000,
        executable,
    }
}

#[test]
fn a_byte_belongs_to_the_segment_that_has_it_in_the_file() {
    let text = segment(0x1000, 0x40_2000, 0x234, true);
    let data = Segment {
        memory_size: 0x3000,
        ..segment(0x1234, 0x40_4234, 0x10, false)
    };
    let segments = Segments::new(vec![data, text]);
    assert_eq!(segments.svma(0x1000), Some(0x40_2000));
    assert_eq!(segments.svma(0x1233), Some(0x40_2233));
    let claimed = "claimed by another segment";
    assert_eq!(segments.svma(0x1234), Some(0x40_4234), "{claimed}");
    let rest = "rest of the page of code";
    assert_eq!(segments.svma(0x1300), Some(0x40_2300), "{rest}");
    let bss = "memory without file";
    assert_eq!(segments.svma(0x2100), Some(0x40_5100), "{bss}");
    assert_eq!(segments.svma(0xfff), None);
    assert_eq!(segments.svma(u64::MAX), None);
    assert!(segments.contains(0x40_7000) && !segments.contains(0x40_8000));
}

/// Segments share pages of the file, as lld lays them out.
#[test]
fn a_mapping_of_code_starts_with_its_page() {
    let segments = Segments::new(vec![
        segment(0, 0, 0x1800, false),
        segment(0x1800, 0x2800, 0x1000, true),
        segment(0x2800, 0x4800, 0x100, false),
    ]);
    assert_eq!(segments.svma(0), Some(0));
    assert_eq!(
        segments.svma(0x1000),
        Some(0x2000),
        "code is mapped from here"
    );
    assert_eq!(segments.svma(0x1001), Some(0x1001), "data is meant");
    assert_eq!(segments.svma(0x1800), Some(0x2800));
    assert_eq!(segments.svma(0x2000), Some(0x3000));
    assert_eq!(segments.svma(0x2800), Some(0x4800), "data again");
    assert_eq!(segments.svma(0x2900), Some(0x3900), "last page of code");
    assert_eq!(segments.svma(0x3000), None);
    assert!(segments.is_code(0x2800) && !segments.is_code(0x27ff));
    assert_eq!(segments.offset_of_svma(0x37ff), Some((0x27ff, 1)));
    assert_eq!(segments.offset_of_svma(0x3800), None);
    assert_eq!(segments.code_start(), 0x2800);
}

/// With 64 KiB pages, code is mapped from offset 0 if its alignment allows.
#[test]
fn large_pages_map_more() {
    let segments = |align| {
        let code = Segment {
            align,
            ..segment(0x1800, 0x1_1800, 0x1000, true)
        };
        Segments::new(vec![segment(0, 0, 0x1800, false), code])
    };
    assert_eq!(segments(0x1_0000).svma(0), Some(0x1_0000));
    assert_eq!(segments(0x1_0000).svma(0x1000), Some(0x1_1000));
    assert_eq!(segments(0x1000).svma(0), Some(0));
    assert_eq!(segments(0).svma(0x1000), Some(0x1_1000));
}

#[test]
fn bounds_are_where_another_segment_answers() {
    let tables = [
        vec![
            segment(0, 0, 0x1800, false),
            segment(0x1800, 0x2800, 0x1000, true),
            segment(0x2800, 0x4800, 0x100, false),
        ],
        vec![
            Segment {
                memory_size: 0x5000,
                ..segment(0x1234, 0x9_4234, 0x10, true)
            },
            segment(0x1000, 0x40_2000, 0x234, false),
            Segment {
                align: 0x1_0000,
                ..segment(0x1_2345, 0x7_2345, 0x777, true)
            },
        ],
        vec![
            segment(u64::MAX - 7, 0, 100, true),
            segment(5, u64::MAX - 3, 9, false),
        ],
    ];
    for table in tables {
        let segments = Segments::new(table.clone());
        let mut bounds = segments.offset_bounds(&[], 1000).unwrap();
        bounds.sort_unstable();
        let bias = |offset: u64| segments.svma(offset).map(|svma| svma.wrapping_sub(offset));
        for offset in 1..0x2_0000 {
            if bias(offset) != bias(offset - 1) {
                let is_bound = bounds.binary_search(&offset).is_ok();
                assert!(is_bound, "{offset:#x} of {table:x?}");
            }
        }
        assert_eq!(segments.offset_bounds(&[], 3), None);
    }
}

#[test]
fn headers_are_read_from_the_file() {
    let program = std::fs::read("/proc/self/exe").unwrap();
    let segments = Segments::parse(&program[..]).unwrap();
    assert!(segments.code().count() > 0 && segments.code_start() > 0);
    for len in [0, 4, 5, 63] {
        assert!(Segments::parse(&program[..len]).is_none());
    }
    assert!(Segments::parse(&[0; 64][..]).is_none());
}

#[test]
fn a_file_of_segments_does_not_lengthen_lookups() {
    let many = (0..100_000).map(|n| segment(n * 0x1000, n * 0x1000, 0x1000, n % 2 == 0));
    assert_eq!(Segments::new(many.collect()).0.len(), MAX_SEGMENTS);
}
