use super::*;

fn list(magic: u32, words: &[u64], table: &[u8]) -> Vec<u8> {
    let mut list = magic.to_le_bytes().to_vec();
    list.extend([0, 0, 1, 8]);
    list.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    list.extend(table);
    list
}

fn starts(section: &[u8], text: u64) -> Vec<u64> {
    GoFunctions::parse(section, text).starts.into()
}

#[test]
fn all_forms() {
    let wide: Vec<u8> = [0x1000_u64, 7, 0x1020, 8, 0x1100, 0]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let narrow: Vec<u8> = [0_u32, 7, 0x20, 8, 0x100, 0]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let expected = [0x1000, 0x1020];
    assert_eq!(starts(&list(0xffff_fffb, &[2], &wide), 0), expected);
    let at = 8 + 7 * 8;
    let words = [2, 1, 0, 0, 0, 0, at];
    assert_eq!(starts(&list(0xffff_fffa, &words, &wide), 0), expected);
    let at = 8 + 8 * 8;
    for (base, text) in [(0x1000, 0), (0, 0x1000)] {
        for magic in [0xffff_fff0, 0xffff_fff1] {
            let words = [2, 1, base, 0, 0, 0, 0, at];
            assert_eq!(starts(&list(magic, &words, &narrow), text), expected);
        }
    }
    assert_eq!(starts(&list(0xffff_ffff, &[2], &wide), 0), []);
}

#[test]
fn damage_leaves_what_is_there() {
    let whole = list(
        0xffff_fff0,
        &[u64::MAX, 1, 0x1000, 0, 0, 0, 0, 72],
        &[0; 80],
    );
    assert_eq!(starts(&whole, 0), [0x1000]);
    for len in 0..whole.len() {
        assert!(starts(&whole[..len], 0).len() <= 1);
    }
    let far = list(0xffff_fff0, &[1, 1, 0, 0, 0, 0, 0, u64::MAX], &[]);
    assert_eq!(starts(&far, 0), []);
}

/// A function that pushes 8 bytes after 4 bytes of code and reserves 16 after 10, until 30; one with the same list; one
/// that loads the stack pointer; one at the top of stacks; and one whose list is cut off.
#[test]
fn frame_sizes_by_instruction() {
    const LISTS: [u8; 10] = [0xff, 2, 4, 16, 6, 32, 20, 0, 2, 0x80];
    for (magic, flags, len) in [
        (0xffff_fffa_u32, 41, 44),
        (0xffff_fff0, 37, 40),
        (0xffff_fff1, 41, 44),
    ] {
        let is_wide = magic == 0xffff_fffa;
        let words = if is_wide { 7 } else { 8 };
        let header = 8 + 8 * words as u64;
        let described = [
            (1_u32, 0_u8),
            (1, 4),
            (1, WRITES_SP),
            (1, TOP_FRAME),
            (8, 0),
        ];
        let entry = if is_wide { 16 } else { 8 };
        let first = (described.len() + 1) * entry;
        let mut table = Vec::new();
        for at in 0..=described.len() {
            let (start, description) = (0x40 * at as u64, (first + at * len) as u64);
            match is_wide {
                true => table.extend([start + 0x1000, description].map(u64::to_le_bytes).concat()),
                false => table.extend(
                    [start as u32, description as u32]
                        .map(u32::to_le_bytes)
                        .concat(),
                ),
            }
        }
        for (list, flag) in described {
            let mut description = vec![0; len];
            let at = if is_wide { 20 } else { 16 };
            description[at..at + 4].copy_from_slice(&list.to_le_bytes());
            description[flags] = flag;
            table.extend(description);
        }
        let lists = header + table.len() as u64;
        let mut head = vec![described.len() as u64, 1, 0x1000, 0, 0, 0];
        head.extend(if is_wide {
            vec![header]
        } else {
            vec![lists, header]
        });
        if is_wide {
            head[5] = lists;
        }
        let mut section = list(magic, &head, &table);
        section.extend(LISTS);
        let functions = GoFunctions::parse(&section, 0);
        let size = |svma| functions.frame_size(svma);
        for start in [0x1000, 0x1040] {
            let found: Vec<_> = [0, 3, 4, 9, 10, 29, 30, 0x3f]
                .map(|at| size(start + at))
                .into();
            let expected = [
                Some(0),
                Some(0),
                Some(8),
                Some(8),
                Some(24),
                Some(24),
                None,
                None,
            ];
            assert_eq!(found, expected, "{magic:x}");
        }
        assert_eq!([0xfff, 0x1080, 0x10c0, 0x1100].map(size), [None; 4]);
        let tops = [0x1000, 0x1080, 0x10c0, 0x1100].map(|svma| functions.is_top(svma));
        assert_eq!(tops, [false, false, true, false]);
        assert_eq!(functions.start(0x1041), Some(0x1040));
        assert_eq!(
            functions.sizes.len(),
            7 + 2,
            "a list of each kind is kept once"
        );
        for len in 0..section.len() {
            let cut = GoFunctions::parse(&section[..len], 0);
            assert!(cut.starts.len() <= described.len());
            let sizes = (0xff0..0x1140).filter_map(|svma| cut.frame_size(svma));
            assert!(sizes.max() <= Some(24));
        }
    }
}

/// The linker writes the same sizes as call frame information, if the program is not stripped.
#[test]
fn frame_sizes_of_a_program_are_those_of_its_call_frame_information() {
    use crate::Arch;
    use crate::table::{CfaRule, UnwindTable};
    use object::{Object, ObjectSection};

    rprof_testing::needs!(Go);
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/go/plain");
    rprof_testing::build_go(source.as_ref(), &program, &[]);
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let section = file.section_by_name(".gopclntab").unwrap();
    let functions = GoFunctions::parse(section.data().unwrap(), 0);
    let table = UnwindTable::parse(&bytes).unwrap();
    let (mut same, mut unknown) = (0, 0);
    for row in table.rows() {
        let Some(rule) = row.rule else {
            continue;
        };
        let CfaRule::Register(register, offset) = rule.cfa else {
            continue;
        };
        assert_eq!(register, Arch::X86_64.sp());
        for svma in [row.start, row.end - 1] {
            match functions.frame_size(svma) {
                Some(size) => {
                    assert_eq!(size as i32 + 8, offset, "{svma:#x}");
                    same += 1;
                }
                None => unknown += 1,
            }
        }
    }
    assert!(same > 5_000 && unknown * 50 < same, "{same}, {unknown}");
}

#[test]
fn names_of_all_forms() {
    let texts = b"main.main\0main.work\0";
    // Two functions, the end, then their descriptions: the start address and the name.
    let wide = |first: u64, names: [u32; 2]| -> Vec<u8> {
        let words = [0x1000, first + 40, 0x1020, first + 52, 0x1100];
        let mut table: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for at in names {
            table.extend([0; 8]);
            table.extend(at.to_le_bytes());
        }
        table
    };
    let narrow = || -> Vec<u8> {
        let words = [0_u32, 20, 0x20, 28, 0x100];
        let mut table: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        table.extend(
            [0, 10]
                .iter()
                .flat_map(|at| [0_u32.to_le_bytes(), u32::to_le_bytes(*at)].concat()),
        );
        table
    };
    // Offsets count from the section.
    let at = 16 + 64;
    let mut go12 = list(0xffff_fffb, &[2], &wide(16, [at, at + 10]));
    go12.extend(texts);
    let mut go116 = list(0xffff_fffa, &[2, 1, 64, 0, 0, 0, 64 + 20], texts);
    go116.extend(wide(0, [0, 10]));
    let mut sections = vec![go12, go116];
    for magic in [0xffff_fff0, 0xffff_fff1] {
        let mut go118 = list(magic, &[2, 1, 0, 72, 0, 0, 0, 72 + 20], texts);
        go118.extend(narrow());
        sections.push(go118);
    }
    for section in sections {
        let names = GoNames::parse(&section, 0x1000).expect("names");
        let strings = &section[names.strings.clone()];
        let name = |(start, at): &(u64, u32)| {
            let name = strings[*at as usize..].split(|byte| *byte == 0).next();
            (
                *start,
                String::from_utf8_lossy(name.unwrap_or_default()).into_owned(),
            )
        };
        let found: Vec<(u64, String)> = names.functions.iter().map(name).collect();
        let expected = [(0x1000, "main.main"), (0x1020, "main.work")];
        assert_eq!(
            found,
            expected.map(|(start, name)| (start, name.to_owned()))
        );
        assert_eq!(names.end, 0x1100);
        for len in 0..section.len() {
            // No panic.
            GoNames::parse(&section[..len], 0x1000);
        }
    }
}

#[test]
fn start_of_the_text_is_relocated_in_position_independent_programs() {
    let relocation = |at: u64, addend: u64| [at, 8, addend].map(u64::to_le_bytes).concat();
    let relocations = [
        relocation(0x5000, 1),
        relocation(0x5018, 0x1100),
        vec![0x18, 0x50],
    ]
    .concat();
    assert_eq!(go_text_start(0x5000, &relocations), Some(0x1100));
    assert_eq!(go_text_start(0x6000, &relocations), None);
    assert_eq!(go_text_start(u64::MAX, &relocations), None);
}

/// `.data.rel.ro` of a program that the C compiler linked has other data before the list.
#[test]
fn a_list_among_other_data_is_found() {
    let before = [vec![0xf1, 0xff, 0xff, 0xff, 1], vec![0; 59]].concat();
    let words = [2, 1, 0, 0, 0, 0, 0, 72];
    let narrow: Vec<u8> = [0_u32, 7, 0x20, 8, 0x100, 0]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let section = [before, list(0xffff_fff1, &words, &narrow)].concat();
    assert_eq!(go_functions_in(&section), Some(64));
    let found = &section[64..];
    assert_eq!(starts(found, 0x1000), [0x1000, 0x1020]);
    assert_eq!(GoFunctions::text(found, 0x1000), Some(0x1000..0x1100));
    assert_eq!(go_functions_in(&section[..70]), None);
    assert_eq!(go_functions_in(&section[1..]), None);
}
