//! [`Id`]: content-based ids of locations and stacks.

use std::fmt;

use sha2::{Digest, Sha256};

/// Id of a location or a stack: the first 128 bits of a SHA-256 of its content. Hosts compute equal
/// ids without coordination.
///
/// Each part is hashed with its length, so that `ab`, `c` differs from `a`, `bc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub [u8; 16]);

impl Id {
    /// Returns the id of an address in an image. `image` is the build-id in hexadecimal digits, or
    /// the path if there is none. `address` is an offset into the file. Names are not hashed, so a
    /// location keeps its id when it gets a name later.
    pub fn of_address(image: &str, address: u64) -> Id {
        Id::of("address", &[image.as_bytes(), &address.to_le_bytes()])
    }

    /// Returns the id of a location without a portable address, such as JIT-compiled or kernel
    /// code. Hashes the image and the function names, innermost call first.
    pub fn of_names<'n>(image: &'n str, names: impl IntoIterator<Item = &'n str>) -> Id {
        let names = names.into_iter().map(str::as_bytes);
        let parts: Vec<&[u8]> = std::iter::once(image.as_bytes()).chain(names).collect();
        Id::of("names", &parts)
    }

    /// Returns the id of a stack from its location ids, leaf first.
    pub fn of_stack(locations: impl IntoIterator<Item = Id>) -> Id {
        let locations: Vec<Id> = locations.into_iter().collect();
        let parts: Vec<&[u8]> = locations.iter().map(|id| id.0.as_slice()).collect();
        Id::of("stack", &parts)
    }

    /// Returns the id of an image from its build-id in hexadecimal digits, or from its path if
    /// there is none.
    pub fn of_image(image: &str) -> Id {
        Id::of("image", &[image.as_bytes()])
    }

    fn of(kind: &str, parts: &[&[u8]]) -> Id {
        let mut hash = Sha256::new();
        for part in std::iter::once(kind.as_bytes()).chain(parts.iter().copied()) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        Id(id)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_of_content_and_kind() {
        assert_ne!(Id::of_names("ab", ["c"]), Id::of_names("a", ["bc"]));
        assert_ne!(Id::of_names("a", ["b", ""]), Id::of_names("a", ["b"]));
        assert_ne!(Id::of_image("a"), Id::of_names("a", []));
        let location = Id::of_address("a", 1);
        assert_ne!(Id::of_stack([location]), location);
        assert_ne!(Id::of_stack([location, location]), Id::of_stack([location]));
    }

    /// A compatibility contract: if these values change, hosts disagree with older versions of
    /// rprof.
    #[test]
    fn ids_stay_as_they_are() {
        // printf '\x07\0\0\0\0\0\0\0address\x02\0\0\0\0\0\0\0ab\x08\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0' | sha256sum
        assert_eq!(
            Id::of_address("ab", 1).to_string(),
            "0a1544d1685ecd621508a5f2b0ba3108"
        );
    }
}
