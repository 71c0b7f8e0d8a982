//! C types by name.

use crate::value::Integer;

/// C type, as far as casts require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Integer(Integer),
    Bool,
    /// Pointer, to integers of this type if known.
    Pointer(Option<Integer>),
    /// Type of unknown width; casts keep the value.
    Other,
}

/// Returns the type of these words (`unsigned long`, `u8`, `struct page`), followed by `stars`.
/// Returns `None` if they cannot be a type.
pub(crate) fn parse(words: &[&str], stars: usize, long_size: u8) -> Option<Type> {
    let base = base(words, long_size)?;
    Some(match (stars, base) {
        (0, base) => base,
        (1, Type::Integer(i)) => Type::Pointer(Some(i)),
        (1, Type::Bool) => Type::Pointer(Some(Integer::BYTE)),
        _ => Type::Pointer(None),
    })
}

fn integer(size: u8, signed: bool) -> Type {
    Type::Integer(Integer { size, signed })
}

fn base(words: &[&str], long_size: u8) -> Option<Type> {
    let (mut unsigned, mut longs, mut named) = (false, 0, None);
    let mut words = words.iter().copied();
    let mut any = false;
    while let Some(word) = words.next() {
        any = true;
        match word {
            "const" | "volatile" | "int" | "signed" | "__force" | "__user" => {}
            "unsigned" => unsigned = true,
            "long" => longs += 1,
            "struct" | "union" => {
                words.next()?;
                named = Some(Type::Other);
            }
            "enum" => {
                words.next()?;
                named = Some(integer(4, false));
            }
            _ if named.is_none() => named = Some(by_name(word, unsigned, long_size)?),
            _ => return None,
        }
    }
    any.then_some(())?;
    Some(match (named, longs) {
        (Some(named), 0) => named,
        (Some(_), _) => return None,
        (None, 0) => integer(4, !unsigned),
        (None, 1) => integer(long_size, !unsigned),
        (None, _) => integer(8, !unsigned),
    })
}

fn by_name(word: &str, unsigned: bool, long_size: u8) -> Option<Type> {
    Some(match word {
        "char" => integer(1, !unsigned),
        "short" => integer(2, !unsigned),
        "void" => Type::Other,
        "bool" | "_Bool" => Type::Bool,
        "u8" | "__u8" | "uint8_t" | "unchar" => integer(1, false),
        "s8" | "__s8" | "int8_t" => integer(1, true),
        "u16" | "__u16" | "uint16_t" | "__be16" | "__le16" | "umode_t" => integer(2, false),
        "s16" | "__s16" | "int16_t" => integer(2, true),
        "u32" | "__u32" | "uint32_t" | "__be32" | "__le32" | "uint" | "dev_t" | "gfp_t"
        | "fmode_t" | "slab_flags_t" | "blk_opf_t" | "uid_t" | "gid_t" => integer(4, false),
        "s32" | "__s32" | "int32_t" | "pid_t" => integer(4, true),
        "u64" | "__u64" | "uint64_t" | "__be64" | "__le64" | "sector_t" | "blkcnt_t" => {
            integer(8, false)
        }
        "s64" | "__s64" | "int64_t" | "loff_t" | "ktime_t" => integer(8, true),
        "size_t" | "ulong" | "uintptr_t" | "ino_t" | "pgoff_t" | "kernel_ulong_t" => {
            integer(long_size, false)
        }
        "ssize_t" | "ptrdiff_t" => integer(long_size, true),
        // Typedefs of the kernel have this suffix.
        _ if word.ends_with("_t") => Type::Other,
        _ => return None,
    })
}

pub(crate) fn size(of: Type, long_size: u8) -> Option<u8> {
    match of {
        Type::Integer(i) => Some(i.size),
        Type::Bool => Some(1),
        Type::Pointer(_) => Some(long_size),
        Type::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let of = |text: &str, stars| {
            parse(&text.split(' ').collect::<Vec<_>>(), stars, 8).map(|t| (t, size(t, 8)))
        };
        assert_eq!(of("unsigned long", 0), Some((integer(8, false), Some(8))));
        assert_eq!(of("unsigned", 0), Some((integer(4, false), Some(4))));
        assert_eq!(of("long long", 0), Some((integer(8, true), Some(8))));
        assert_eq!(of("unsigned char", 0), Some((integer(1, false), Some(1))));
        assert_eq!(of("struct page", 0), Some((Type::Other, None)));
        assert_eq!(of("void", 1), Some((Type::Pointer(None), Some(8))));
        assert_eq!(of("REC", 0), None);
        assert_eq!(of("long foo_t", 0), None);
        assert_eq!(of("struct", 0), None);
    }
}
