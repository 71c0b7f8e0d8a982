use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command};

use super::super::selection::PATIENCE;
use super::copying::*;
use super::*;

struct Sleeper {
    folder: tempfile::TempDir,
    child: Child,
}

impl Sleeper {
    fn new() -> Sleeper {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sleeper");
        // Copied by another process: a file open for writing here cannot be executed.
        let copied = Command::new("cp").arg("/bin/sleep").arg(&path).status();
        assert!(copied.unwrap().success());
        let child = Command::new(&path).arg("600").spawn().unwrap();
        let sleeper = Sleeper { folder, child };
        while !sleeper.maps().contains("/sleeper\n") {
            std::thread::yield_now();
        }
        sleeper
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("sleeper")
    }

    fn maps(&self) -> String {
        let maps = format!("/proc/{}/maps", self.child.id());
        std::fs::read_to_string(maps).unwrap_or_default()
    }

    fn image(&self) -> MappedImage {
        let maps = self.maps();
        let is_code = |line: &&str| line.contains(" r-xp ") && line.ends_with("/sleeper");
        let line = maps.lines().find(is_code).unwrap();
        let (range, rest) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let mut fields = rest.split_ascii_whitespace().skip(2);
        let (major, minor) = fields.next().unwrap().split_once(':').unwrap();
        let part = |text| u32::from_str_radix(text, 16).unwrap();
        MappedImage {
            pid: Pid(self.child.id() as i32),
            range: number(start)..number(end),
            image: Image {
                path: self.path().as_os_str().as_bytes().into(),
                identity: ImageIdentity::Inode {
                    major: part(major),
                    minor: part(minor),
                    inode: fields.next().unwrap().parse().unwrap(),
                    generation: 0,
                },
                kind: ImageKind::File,
                first_mapped: 0,
            },
        }
    }

    fn end(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn embedded(
    embedding: Embedding,
    sleeper: &mut Sleeper,
    then: impl FnOnce(&mut Sleeper),
) -> (Vec<EmbeddedFile<'static>>, Vec<Notice>) {
    let mut images = KeptImages::new(embedding);
    let calls = PatientCalls::new("t", PATIENCE);
    let mut notices = Notices::default();
    let image = sleeper.image();
    images.handle_mapped(image.clone(), &calls, &mut notices);
    images.handle_sampled(image, &calls, &mut notices);
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    let held = open.filter(|path| path.starts_with(sleeper.folder.path()));
    assert_eq!(held.count(), 0);
    then(sleeper);
    let mut files = Vec::new();
    let mut hand = |file| files.push(file);
    images.files(100, &calls, &mut notices, &mut hand);
    (files, notices.into_vec())
}

#[test]
fn program_that_is_removed_after_it_was_sampled_is_embedded() {
    let whole = std::fs::read("/bin/sleep").unwrap();
    let mut sleeper = Sleeper::new();
    let (files, notices) = embedded(Embedding::Unreachable, &mut sleeper, |sleeper| {
        sleeper.end();
        std::fs::remove_file(sleeper.path()).unwrap();
    });
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].contents().as_deref(), Some(&whole[..]));
    assert_eq!(*files[0].path, *sleeper.path().as_os_str().as_bytes());
    let told = Notice::ImagesEmbedded {
        first: sleeper.path(),
        count: 1,
        bytes: whole.len() as u64,
        without_code: 0,
    };
    assert_eq!(notices, [told]);
}

#[test]
fn program_that_is_where_it_was_is_embedded_only_if_all_are() {
    for (embedding, count) in [
        (Embedding::Unreachable, 0),
        (Embedding::All, 1),
        (Embedding::Nothing, 0),
    ] {
        let (files, _) = embedded(embedding, &mut Sleeper::new(), |_| ());
        assert_eq!(files.len(), count, "{embedding:?}");
    }
}

#[test]
fn program_that_goes_while_it_is_mapped_is_copied_from_its_process() {
    let mut sleeper = Sleeper::new();
    let map = sleeper.image();
    let source = ImageSource {
        file: std::fs::metadata(sleeper.path())
            .ok()
            .map(|found| (found.dev(), found.ino())),
        build_id: None,
        map,
    };
    let wanted = KeptImages::new(Embedding::Unreachable).wanted();
    let lasting = LastingPlaces::default();
    std::fs::remove_file(sleeper.path()).unwrap();
    assert!(!source.is_still_here());
    let copied = look_at_gone(&source, wanted, &lasting);
    sleeper.end();
    let gone = look_at_gone(&source, wanted, &lasting);
    // Only root can open a mapped file other than by its name. A process's program is open to
    // its owner.
    assert!(matches!(copied, State::Copied(_)), "{copied:?}");
    assert!(matches!(gone, State::Gone), "{gone:?}");
}

#[test]
fn program_that_was_gone_before_it_was_looked_at_is_reported() {
    let mut sleeper = Sleeper::new();
    let image = sleeper.image();
    sleeper.end();
    std::fs::remove_file(sleeper.path()).unwrap();
    let mut images = KeptImages::new(Embedding::Unreachable);
    let calls = PatientCalls::new("t", PATIENCE);
    let mut notices = Notices::default();
    for _ in 0..3 {
        images.handle_sampled(image.clone(), &calls, &mut notices);
    }
    images.files(1, &calls, &mut notices, &mut |file| panic!("{file:?}"));
    let told = Notice::ImageGone {
        path: sleeper.path(),
        others: 0,
    };
    assert_eq!(notices.into_vec(), [told]);
}

fn source(path: &str) -> ImageSource {
    ImageSource {
        map: MappedImage {
            pid: Pid(i32::MAX),
            range: 0..1,
            image: Image {
                path: path.as_bytes().into(),
                identity: ImageIdentity::PathOnly,
                kind: ImageKind::File,
                first_mapped: 0,
            },
        },
        file: Some((0, 0)),
        build_id: None,
    }
}

#[test]
fn few_samples_keep_symbols_and_many_keep_code() {
    let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let len = whole.len() as u64;
    for compressed in [false, true] {
        let copy = ImageCopy::new(whole.clone(), compressed).unwrap();
        let state = State::Copied(Arc::new(copy));
        let embed = |room| match source("/gone").embed(&state, false, u64::MAX, room) {
            Embedded::File(file, kept) => (file.contents().unwrap(), kept),
            other => panic!("{other:?}"),
        };
        let (bytes, kept) = embed(len);
        assert!(bytes == whole && kept == len);
        let (bytes, kept) = embed(len - 1);
        assert!(bytes.len() as u64 == len && kept < len && bytes != whole);
    }
}

#[test]
fn user_with_most_copies_leaves_room_for_others() {
    const MIB: u64 = 1 << 20;
    let mut images = KeptImages::new(Embedding::Unreachable);
    let mut add = |user: u32, number: u64| {
        let copy = ImageCopy {
            len: MIB,
            bytes: CopiedBytes::Plain(Vec::new()),
        };
        images.add(KnownImage {
            source: Arc::new(source(&format!("/{user}/{number}"))),
            user,
            state: State::Copied(Arc::new(copy)),
        });
        let of = |user: u32| {
            let known = images.known.iter().filter(|known| known.user == user);
            known.map(KnownImage::copied).sum::<u64>() / MIB
        };
        (of(65534), of(0))
    };
    let mut copied = (0, 0);
    for n in 0..1000 {
        copied = add(65534, n);
    }
    assert_eq!(copied, (128, 0));
    for n in 0..50 {
        copied = add(0, n);
    }
    assert_eq!(copied, (78, 50));
    for n in 1000..2000 {
        copied = add(65534, n);
    }
    assert_eq!(copied, (78, 50));
    // But not more than half.
    for n in 50..200 {
        copied = add(0, n);
    }
    assert_eq!(copied, (64, 64));
}
