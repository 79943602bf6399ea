//! The cache on disk: what is kept comes back, and what is wrong in any way is never used.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use fusewright_abi::{ContentKey, Payload, PayloadKind, Target};
use fusewright_runtime::disk::{DiskCache, DiskError, EntryFile, Label};

const LIMIT: u64 = 64 << 20;

/// The folder in which a child of this test writes until it is killed.
const WRITE_INTO: &str = "FUSEWRIGHT_TEST_WRITE_INTO";

/// Everything about an entry follows from its number, so that what comes back can be told from anything else.
fn entry(number: u64, bytes: usize) -> (ContentKey, Label, Payload) {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    let key = ContentKey(std::array::from_fn(|_| next()));
    let payload = Payload { kind: PayloadKind::HostCode, bytes: (0..bytes).map(|_| next()).collect() };
    (key, Label { target: Target::Cpu, kernel: format!("k{number}") }, payload)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("the system has a place for temporary files")
}

fn open(folder: &Path) -> DiskCache {
    DiskCache::open(folder, LIMIT).expect("the folder is this user's")
}

/// A cache in a folder of its own with one entry, and the file of that.
fn with_one() -> (tempfile::TempDir, DiskCache, PathBuf) {
    let root = folder();
    let cache = open(&root.path().join("a/cache"));
    let (key, label, payload) = entry(1, 1000);
    cache.save(&key, &label, &payload).expect("there is room");
    let file = only(&cache).path;
    (root, cache, file)
}

#[track_caller]
fn only(cache: &DiskCache) -> EntryFile {
    let [file] = &cache.entries().expect("the folder is readable")[..] else { panic!("not one file") };
    file.clone()
}

/// Fails unless the first entry is refused with these words, and is there again once it is written again.
#[track_caller]
fn refused_then_rebuilt(cache: &DiskCache, words: &str) {
    let (key, label, payload) = entry(1, 1000);
    let error = cache.load(&key).expect_err("it is refused").to_string();
    assert!(error.contains(words) && error.contains(&key.to_string()), "no `{words}` in: {error}");
    cache.save(&key, &label, &payload).expect("it is written over");
    assert_eq!(cache.load(&key).expect("it is whole"), Some((label, payload)));
}

#[test]
fn what_is_kept_comes_back_in_every_process_and_nothing_else_does() {
    let (_root, cache, _) = with_one();
    let (key, label, payload) = entry(1, 1000);
    assert_eq!(cache.load(&key).expect("it is whole"), Some((label.clone(), payload.clone())));
    let again = open(cache.folder());
    assert_eq!(again.load(&key).expect("it is whole"), Some((label.clone(), payload)));
    assert_eq!(cache.load(&entry(2, 0).0).expect("nothing is there"), None);
    assert_eq!(cache.check(&only(&cache)).expect("it is whole"), label);
    let bytes = only(&cache).bytes;
    assert_eq!(cache.clear().expect("all is removed"), (1, bytes));
    assert_eq!(cache.load(&key).expect("nothing is there"), None);
}

#[test]
fn torn_damaged_and_foreign_files_are_refused_and_rebuilt() {
    type Damage = fn(&Path, Vec<u8>) -> Vec<u8>;
    let cases: [(&str, Damage); 9] = [
        ("is cut off", |_, _| Vec::new()),
        ("is cut off", |_, bytes| bytes[..40].to_vec()),
        ("is cut off", |_, bytes| bytes[..bytes.len() - 1].to_vec()),
        // A disk that lost power may hold zeros where data was to be.
        ("is no entry", |_, bytes| vec![0; bytes.len()]),
        ("is damaged", |_, mut bytes| {
            let half = bytes.len() / 2;
            bytes[half..half + 64].fill(0);
            bytes
        }),
        ("is no entry", |_, _| b"\x7fELF and more that is no entry".to_vec()),
        ("bytes behind its end", |_, mut bytes| {
            bytes.extend([0; 17]);
            bytes
        }),
        ("is of version", |_, mut bytes| {
            bytes[12] ^= 4;
            bytes
        }),
        // Of another machine or compiler, whose key is another, under this name.
        ("another kernel", |file, bytes| {
            let root = folder();
            let other = open(root.path());
            let (key, label, payload) = entry(2, 1000);
            other.save(&key, &label, &payload).expect("there is room");
            let foreign = fs::read(only(&other).path).expect("it is there");
            assert_ne!((foreign.len(), file.exists()), (0, false), "{}", bytes.len());
            foreign
        }),
    ];
    for (words, damage) in cases {
        let (_root, cache, file) = with_one();
        let bytes = damage(&file, fs::read(&file).expect("it is there"));
        fs::write(&file, bytes).expect("it is this user's");
        assert!(cache.check(&only(&cache)).is_err());
        refused_then_rebuilt(&cache, words);
    }
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is this user's");
    }

    fn is_root(folder: &Path) -> bool {
        fs::metadata(folder).expect("it is there").uid() == 0
    }

    #[test]
    fn folder_and_files_are_private() {
        let (_root, cache, file) = with_one();
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        let shard = file.parent().expect("it lies in a folder");
        assert_eq!([cache.folder(), shard, &file].map(mode), [0o700, 0o700, 0o600]);
    }

    #[test]
    fn a_folder_that_others_may_write_into_is_refused() {
        let root = folder();
        for (mode, taken) in [(0o700, true), (0o755, true), (0o720, false), (0o702, false), (0o777, false)] {
            set_mode(root.path(), mode);
            let opened = DiskCache::open(root.path(), LIMIT);
            assert_eq!(opened.is_ok(), taken, "{mode:o}");
            if let Err(error) = opened {
                assert!(error.to_string().contains("may be written by others"), "{error}");
            }
        }
        let file = root.path().join("file");
        fs::write(&file, "").expect("there is room");
        let error = DiskCache::open(&file, LIMIT).expect_err("it is no folder");
        assert!(matches!(&error, DiskError::Folder { folder, .. } if *folder == file), "{error}");
    }

    #[test]
    fn what_belongs_to_someone_else_is_refused() {
        let (_root, cache, file) = with_one();
        if !is_root(&file) {
            println!("skipped: files of another user (only root can make them)");
            return;
        }
        chown(&file, Some(4242), None).expect("root may");
        refused_then_rebuilt(&cache, "belongs to user 4242");
        chown(cache.folder(), Some(4242), None).expect("root may");
        let error = DiskCache::open(cache.folder(), LIMIT).expect_err("it is another's").to_string();
        assert!(error.contains("belongs to user 4242"), "{error}");
    }

    #[test]
    fn files_that_others_wrote_or_that_are_none_are_refused() {
        let (_root, cache, file) = with_one();
        set_mode(&file, 0o666);
        refused_then_rebuilt(&cache, "may be written by others");
        // Whoever may write elsewhere must not choose what is read here.
        let elsewhere = file.with_extension("elsewhere");
        fs::rename(&file, &elsewhere).expect("it is there");
        symlink(&elsewhere, &file).expect("the place is free");
        refused_then_rebuilt(&cache, "cannot be opened");
        fs::remove_file(&file).expect("it is there");
        // A pipe that nobody writes into would be waited for.
        let made = Command::new("mkfifo").arg(&file).status().expect("the system has mkfifo");
        assert!(made.success());
        refused_then_rebuilt(&cache, "is no file");
        fs::remove_file(&file).expect("it is there");
        fs::create_dir(&file).expect("the place is free");
        let error = cache.load(&entry(1, 0).0).expect_err("a folder is no entry").to_string();
        assert!(error.contains("is no file"), "{error}");
    }

    #[test]
    fn what_cannot_be_written_is_said_once_and_what_is_there_is_read() {
        let (_root, cache, file) = with_one();
        // A file in the place of a shard stops every user, root too, whom modes do not.
        let (key, label, payload) = entry(2, 100);
        let shard = cache.folder().join(format!("{:02x}", key.0[0] % 64));
        assert_ne!(file.parent(), Some(shard.as_path()), "the entries have shards of their own");
        fs::write(&shard, "").expect("there is room");
        let error = cache.save(&key, &label, &payload).expect_err("there is no such folder");
        assert!(matches!(&error, DiskError::Io { path, .. } if path.starts_with(&shard)), "{error}");
        cache.save(&key, &label, &payload).expect("a second failure is not said");
        assert!(cache.load(&entry(1, 0).0).expect("it is whole").is_some());
        if !is_root(cache.folder()) {
            fs::remove_file(&shard).expect("it is there");
            set_mode(cache.folder(), 0o500);
            let closed = open(cache.folder());
            assert!(closed.save(&key, &label, &payload).is_err());
            assert!(closed.load(&entry(1, 0).0).expect("it is whole").is_some());
            set_mode(cache.folder(), 0o700);
        }
    }

    /// On a file system of a few pages.
    #[test]
    fn a_full_disk_leaves_no_file() {
        let root = folder();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs"]).arg(root.path());
        let mounted = mount.stderr(Stdio::null()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            println!("skipped: a full disk (no file system can be mounted here)");
            return;
        }
        let cache = open(root.path());
        let (small, big) = (entry(1, 1000), entry(2, 1 << 20));
        let kept = cache.save(&small.0, &small.1, &small.2);
        let full = cache.save(&big.0, &big.1, &big.2);
        let files = cache.entries();
        let read = cache.load(&small.0);
        drop(Command::new("umount").arg(root.path()).status());
        kept.expect("there is room");
        assert!(full.expect_err("there is no room").to_string().contains("No space left"));
        assert_eq!(files.expect("the folder is readable").len(), 1, "what was half written is gone");
        assert_eq!(read.expect("it is whole"), Some((small.1, small.2)));
    }
}

#[test]
fn the_least_recently_used_make_room() {
    let root = folder();
    // Room for three entries of each shard.
    let cache = DiskCache::open(root.path(), 64 * 3500).expect("the folder is this user's");
    let same_shard: Vec<_> = (1..).map(|n| entry(n, 1000)).filter(|e| e.0.0[0] % 64 == 5).take(5).collect();
    let age = |key: &ContentKey, hours: u64| {
        let path = root.path().join(format!("05/{key}.kernel"));
        let then = SystemTime::now() - Duration::from_secs(3600 * hours);
        fs::File::open(path).and_then(|file| file.set_modified(then)).expect("it is there");
    };
    for (i, (key, label, payload)) in same_shard.iter().take(3).enumerate() {
        cache.save(key, label, payload).expect("there is room");
        age(key, 10 - i as u64);
    }
    // The oldest is used, so that the second is the next to go.
    assert!(cache.load(&same_shard[0].0).expect("it is whole").is_some());
    let abandoned = root.path().join("05/left.partial");
    fs::write(&abandoned, "half").expect("there is room");
    let long_ago = SystemTime::now() - Duration::from_secs(7200);
    fs::File::open(&abandoned).and_then(|file| file.set_modified(long_ago)).expect("it is there");
    let (key, label, payload) = &same_shard[3];
    cache.save(key, label, payload).expect("there is room");
    let there = |cache: &DiskCache| {
        same_shard.iter().map(|e| cache.load(&e.0).expect("all are whole").is_some()).collect::<Vec<_>>()
    };
    assert_eq!(there(&cache), [true, false, true, true, false]);
    assert!(!abandoned.exists(), "what a process left half written is removed");
    // A limit below one entry keeps none, and one of a shard below one entry keeps the newest.
    let small = DiskCache::open(root.path(), 900).expect("the folder is this user's");
    let (key, label, payload) = &same_shard[4];
    small.save(key, label, payload).expect("nothing is written");
    assert_eq!(there(&small), [true, false, true, true, false]);
    let medium = DiskCache::open(root.path(), 2000).expect("the folder is this user's");
    medium.save(key, label, payload).expect("it is written");
    assert_eq!(there(&medium), [false, false, false, false, true]);
}

/// Not a test of its own: what the children of the tests below run. It writes entries until it is killed.
#[test]
fn child_that_writes() {
    let Some(into) = std::env::var_os(WRITE_INTO) else { return };
    let cache = open(Path::new(&into));
    for number in (0..40).cycle() {
        let (key, label, payload) = entry(number, 20_000 + 3_000 * number as usize);
        cache.save(&key, &label, &payload).expect("there is room");
    }
}

fn writer(into: &Path) -> Child {
    let this = std::env::current_exe().expect("a test is a file");
    let mut command = Command::new(this);
    command.args(["--exact", "child_that_writes"]).env(WRITE_INTO, into).stdout(Stdio::null());
    command.spawn().expect("the test starts")
}

/// Every entry there is one that was written, whole.
#[track_caller]
fn check_all(cache: &DiskCache, written: &mut BTreeSet<u64>) {
    for number in 0..40 {
        let (key, label, payload) = entry(number, 20_000 + 3_000 * number as usize);
        if let Some(found) = cache.load(&key).expect("no reader meets part of an entry") {
            assert_eq!(found, (label, payload));
            written.insert(number);
        }
    }
}

#[test]
fn two_hundred_killed_writers_leave_no_bad_entry() {
    let root = folder();
    let cache = open(root.path());
    let mut written = BTreeSet::new();
    let mut halves = 0;
    for kill in 0..200u64 {
        let mut child = writer(root.path());
        // From before the first write to the midst of later ones.
        std::thread::sleep(Duration::from_micros(1_500 + 97 * kill));
        child.kill().expect("it is running");
        child.wait().expect("it was started here");
        check_all(&cache, &mut written);
        let files = cache.entries().expect("the folder is readable");
        halves = halves.max(files.iter().filter(|file| file.key.is_none()).count());
    }
    assert!(!written.is_empty(), "no writer came to write");
    println!("{} entries whole, {halves} left half written", written.len());
    cache.clear().expect("all is removed");
    assert_eq!(cache.entries().expect("the folder is readable"), []);
}

#[test]
fn processes_write_and_read_at_once() {
    let root = folder();
    let mut children: Vec<Child> = (0..3).map(|_| writer(root.path())).collect();
    let cache = open(root.path());
    let mut written = BTreeSet::new();
    let start = std::time::Instant::now();
    while written.len() < 40 && start.elapsed() < Duration::from_secs(60) {
        check_all(&cache, &mut written);
    }
    (0..20).for_each(|_| check_all(&cache, &mut written));
    for child in &mut children {
        child.kill().expect("it is running");
        child.wait().expect("it was started here");
    }
    assert_eq!(written.len(), 40, "three writers write all of forty entries");
}
