//! Synthetic images: just enough of an ELF file for call frame information.

/// Returns an ELF image with a code segment at 0x1000 (64 KiB) and these sections: name, SVMA,
/// contents. `machine` is `e_machine`: 62 for x86-64, 183 for AArch64.
pub(crate) fn image(machine: u16, sections: &[(&str, u64, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut names = vec![0];
    let mut headers = vec![0; 64];
    let mut data: Vec<u8> = Vec::new();
    let data_at = 64 + 56;
    let mut add = |name: &str, kind: u32, svma: u64, contents: &[u8], names: &mut Vec<u8>| {
        let mut header = Vec::new();
        header.extend((names.len() as u32).to_le_bytes());
        names.extend(name.bytes().chain([0]));
        header.extend(kind.to_le_bytes());
        header.extend(2_u64.to_le_bytes());
        header.extend(svma.to_le_bytes());
        header.extend((data_at + data.len() as u64).to_le_bytes());
        header.extend((contents.len() as u64).to_le_bytes());
        header.extend([0; 24]);
        header[48..56].copy_from_slice(&1_u64.to_le_bytes());
        headers.extend(header);
        data.extend(contents);
    };
    for (name, svma, contents) in sections {
        add(name, 1, *svma, contents, &mut names);
    }
    let mut with_last = names.clone();
    with_last.extend(b".shstrtab\0");
    let at = names.len();
    add(".shstrtab", 3, 0, &with_last, &mut names);
    assert!(at < with_last.len());
    let shoff = data_at + data.len() as u64;
    bytes.extend(2_u16.to_le_bytes());
    bytes.extend(machine.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(64_u64.to_le_bytes());
    bytes.extend(shoff.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    for word in [
        64_u16,
        56,
        1,
        64,
        sections.len() as u16 + 2,
        sections.len() as u16 + 1,
    ] {
        bytes.extend(word.to_le_bytes());
    }
    // PT_LOAD, readable and executable, at 0x1000.
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(5_u32.to_le_bytes());
    for word in [0x1000_u64, 0x1000, 0x1000, 0x10000, 0x10000, 0x1000] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(data);
    bytes.extend(headers);
    bytes
}

/// Returns an `.eh_frame` with one CIE and FDEs with absolute addresses: start, length,
/// instructions. `cie` has the initial instructions, `return_address` is that register's number.
pub(crate) fn eh_frame(
    augmentation: &str,
    return_address: u8,
    cie: &[u8],
    fdes: &[(u64, u64, &[u8])],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let entry = |bytes: &mut Vec<u8>, id: u32, contents: &[u8]| {
        let len = (contents.len() + 4).next_multiple_of(4);
        bytes.extend((len as u32).to_le_bytes());
        bytes.extend(id.to_le_bytes());
        bytes.extend(contents);
        // DW_CFA_nop
        bytes.resize(bytes.len() + len - 4 - contents.len(), 0);
    };
    let mut contents = vec![1];
    contents.extend(augmentation.bytes().chain([0]));
    // Code alignment 1, data alignment -8.
    contents.extend([1, 0x78, return_address]);
    if augmentation.starts_with('z') {
        contents.push(0);
    }
    contents.extend(cie);
    entry(&mut bytes, 0, &contents);
    for (start, len, instructions) in fdes {
        let mut contents = Vec::new();
        contents.extend(start.to_le_bytes());
        contents.extend(len.to_le_bytes());
        if augmentation.starts_with('z') {
            contents.push(0);
        }
        contents.extend(*instructions);
        let id = bytes.len() as u32 + 4;
        entry(&mut bytes, id, &contents);
    }
    bytes
}
