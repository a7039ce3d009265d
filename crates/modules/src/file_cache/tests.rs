//! Tests with real files: whatever happens to a file, the next look-up tells it.

use super::*;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A folder with a document root in it, `root`, that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("manifold-file-cache-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("root")).unwrap();
        Folder(path)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.join("root").join(file)
    }

    fn name(&self, file: &str) -> Vec<u8> {
        self.path(file).into_os_string().into_encoded_bytes()
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap();
    }

    fn cache(&self, settings: &FileSettings) -> FileCache {
        FileCache::new(settings, self.0.join("root"), Types::built_in())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A new turn, an hour from now: files made by the test have settled by then.
fn later() -> Turn {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    at(wall + Duration::from_secs(3600))
}

fn at(wall: Duration) -> Turn {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Turn { number: NEXT.fetch_add(1, Ordering::Relaxed), now: Instant::now(), wall }
}

fn file(found: Found) -> Arc<Resource> {
    match found {
        Found::File(resource) => resource,
        other => panic!("expected a file, not {other:?}"),
    }
}

fn text(resource: &Resource) -> String {
    match &resource.content {
        Content::Memory(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Content::File(file) => {
            use std::os::unix::fs::FileExt;
            let mut bytes = vec![0; resource.size as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            String::from_utf8(bytes).unwrap()
        }
    }
}

/// What a look-up says, in one line: the content, `directory`, or the error.
fn said(cache: &FileCache, name: &[u8], turn: Turn) -> String {
    match cache.look_up(name, None, turn, Wait::Allowed) {
        Ok(Found::Directory) => "directory".to_owned(),
        Ok(found) => text(&file(found)),
        Err(error) => format!("{}", Errno::from_raw(error.raw_os_error().unwrap_or(0))),
    }
}

/// Content of a file that is kept open, not in memory.
fn large(byte: &str) -> String {
    byte.repeat(MEMORY_MAX as usize + 1)
}

/// Something that is done to a file, and what is there afterwards.
type Change = (&'static str, fn(&Folder), fn() -> String);

/// Each is done to `page`, which was just served and says `before`, beside a file `other`.
const CHANGES: &[Change] = &[
    ("written anew", |folder| folder.write("page", "afterward"), || "afterward".to_owned()),
    ("written anew with as many bytes", |folder| folder.write("page", "behind"), || "behind".to_owned()),
    ("truncated", |folder| folder.write("page", ""), String::new),
    ("grown out of memory", |folder| folder.write("page", &large("x")), || large("x")),
    ("replaced", |folder| fs::rename(folder.path("other"), folder.path("page")).unwrap(), || "other!".to_owned()),
    ("removed", |folder| fs::remove_file(folder.path("page")).unwrap(), || Errno::ENOENT.to_string()),
    (
        "written with its old time stamp",
        |folder| {
            let modified = fs::metadata(folder.path("page")).unwrap().modified().unwrap();
            folder.write("page", "behind");
            fs::File::options().write(true).open(folder.path("page")).unwrap().set_modified(modified).unwrap();
        },
        || "behind".to_owned(),
    ),
    (
        "swapped with another of the same size and time stamp",
        |folder| {
            let modified = fs::metadata(folder.path("page")).unwrap().modified().unwrap();
            fs::File::options().write(true).open(folder.path("other")).unwrap().set_modified(modified).unwrap();
            fs::hard_link(folder.path("page"), folder.path("kept")).unwrap();
            fs::rename(folder.path("other"), folder.path("page")).unwrap();
        },
        || "other!".to_owned(),
    ),
    (
        "made a directory",
        |folder| {
            fs::remove_file(folder.path("page")).unwrap();
            fs::create_dir(folder.path("page")).unwrap();
        },
        || "directory".to_owned(),
    ),
    (
        "made a link to another",
        |folder| {
            fs::remove_file(folder.path("page")).unwrap();
            symlink("other", folder.path("page")).unwrap();
        },
        || "other!".to_owned(),
    ),
    (
        "made a pipe",
        |folder| {
            fs::remove_file(folder.path("page")).unwrap();
            nix::unistd::mkfifo(&folder.path("page"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        },
        || Errno::from_raw(0).to_string(),
    ),
    (
        "its directory swapped",
        |folder| {
            fs::rename(folder.0.join("root"), folder.0.join("before")).unwrap();
            fs::create_dir(folder.0.join("root")).unwrap();
            folder.write("page", "a new release");
        },
        || "a new release".to_owned(),
    ),
];

#[test]
fn whatever_happens_to_a_file_the_next_look_up_tells_it() {
    for links in [Links::Follow, Links::OwnerMatch] {
        for &(what, change, after) in CHANGES {
            let folder = Folder::new("changes");
            folder.write("page", "before");
            folder.write("other", "other!");
            let cache = folder.cache(&FileSettings { links, ..FileSettings::default() });
            let name = folder.name("page");
            for _ in 0..2 {
                assert_eq!(said(&cache, &name, later()), "before");
            }
            change(&folder);
            for _ in 0..2 {
                assert_eq!(said(&cache, &name, later()), after(), "{what}");
            }
        }
    }
}

#[test]
fn a_link_that_leads_elsewhere_is_followed_there() {
    let folder = Folder::new("retarget");
    folder.write("first", "first");
    folder.write("second", "second");
    let cache = folder.cache(&FileSettings::default());
    for target in ["first", "second", "first", "none"] {
        symlink(target, folder.path("new")).unwrap();
        fs::rename(folder.path("new"), folder.path("page")).unwrap();
        let expected = if target == "none" { Errno::ENOENT.to_string() } else { target.to_owned() };
        assert_eq!(said(&cache, &folder.name("page"), later()), expected);
    }
}

#[test]
fn a_file_that_may_not_be_read_any_more_is_refused_although_it_is_kept() {
    let folder = Folder::new("mode");
    folder.write("page", "before");
    let cache = folder.cache(&FileSettings::default());
    assert_eq!(said(&cache, &folder.name("page"), later()), "before");
    fs::set_permissions(folder.path("page"), fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read it still; whoever it is, the answer is the kernel's of now.
    let expected = match fs::read_to_string(folder.path("page")) {
        Ok(text) => text,
        Err(_) => Errno::EACCES.to_string(),
    };
    assert_eq!(said(&cache, &folder.name("page"), later()), expected);
    let name = Name { path: &folder.name("page"), coding: None };
    let mode = front::with(cache.id, |front| {
        front
            .find(name.hash(), name)
            .and_then(|slot| slot.known.as_ref().map(|known| known.stamp.unwrap().0.mode & 0o777))
    });
    assert!(matches!(mode, None | Some(0)), "what was kept is of before: {mode:?}");
}

#[test]
fn an_unchanged_file_is_read_once_and_a_fresh_one_every_time() {
    let folder = Folder::new("unchanged");
    folder.write("page", "text");
    let cache = folder.cache(&FileSettings::default());
    let look = |turn| file(cache.look_up(&folder.name("page"), None, turn, Wait::Allowed).unwrap());
    assert!(Arc::ptr_eq(&look(later()), &look(later())));

    let (seconds, nanoseconds) = Stamp(manifold_sys::file::status(&c_name(&folder, "page")).unwrap()).0.changed;
    let changed = Duration::new(seconds as u64, nanoseconds);
    let cache = folder.cache(&FileSettings::default());
    let look = |turn| file(cache.look_up(&folder.name("page"), None, turn, Wait::Allowed).unwrap());
    let just_now = at(changed + Duration::from_millis(1));
    let (first, same_turn) = (look(just_now), look(just_now));
    let second = look(at(changed + Duration::from_millis(2)));
    assert!(Arc::ptr_eq(&first, &same_turn) && !Arc::ptr_eq(&first, &second));
    let tag = |resource: &Resource| String::from_utf8(resource.etag().unwrap().to_vec()).unwrap();
    assert!(tag(&first).starts_with("W/\"4-"));
    // Three seconds: the file system may keep whole ones.
    assert_eq!(format!("W/{}", tag(&look(at(changed + Duration::from_secs(3))))), tag(&first));
}

fn c_name(folder: &Folder, file: &str) -> std::ffi::CString {
    std::ffi::CString::new(folder.name(file)).unwrap()
}

#[test]
fn small_files_are_kept_in_memory_large_ones_open_and_types_known() {
    let folder = Folder::new("kinds");
    let cache = folder.cache(&FileSettings::default());
    folder.write("large.css", &large("x"));
    folder.write("small.html", "small");
    let look = |name: &str| cache.look_up(&folder.name(name), None, later(), Wait::Allowed).unwrap();
    let (large, small) = (file(look("large.css")), file(look("small.html")));
    assert!(matches!(large.content, Content::File(_)) && matches!(small.content, Content::Memory(_)));
    assert_eq!(large.media_type().map(|name| &**name), Some("text/css"));
    assert!(small.whole_head().ends_with(b"\r\nContent-Length: 5\r\nContent-Type: text/html\r\n\r\n"));
    assert!(matches!(look("."), Found::Directory));
    let nul = cache.look_up(b"/a\0b", None, later(), Wait::Allowed).unwrap_err();
    assert_eq!(nul.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_file_that_is_replaced_while_it_is_sent_is_sent_to_its_end() {
    let folder = Folder::new("sent");
    folder.write("page", &large("a"));
    let cache = folder.cache(&FileSettings::default());
    let being_sent = file(cache.look_up(&folder.name("page"), None, later(), Wait::Allowed).unwrap());
    folder.write("new", &large("b"));
    fs::rename(folder.path("new"), folder.path("page")).unwrap();
    assert_eq!(said(&cache, &folder.name("page"), later()), large("b"));
    assert_eq!(text(&being_sent), large("a"));
}

#[test]
fn how_old_an_answer_may_be_is_said() {
    let folder = Folder::new("check");
    let mut settings = FileSettings::default();
    let mut check = |check, expected: [&str; 3]| {
        settings.check = check;
        folder.write("page", "before");
        let cache = folder.cache(&settings);
        let mut turn = later();
        let name = folder.name("page");
        assert_eq!(said(&cache, &name, turn), "before");
        folder.write("page", "after");
        let mut answers = Vec::new();
        for passes in [999, 1, 86_400_000] {
            turn = Turn { now: turn.now + Duration::from_millis(passes), ..at(turn.wall) };
            answers.push(said(&cache, &name, turn));
        }
        assert_eq!(answers, expected, "{check:?}");
    };
    check(Check::Always, ["after", "after", "after"]);
    check(Check::After(Duration::from_secs(1)), ["before", "after", "after"]);
    check(Check::Never, ["before", "before", "before"]);
}

#[test]
fn threads_share_what_one_of_them_has_read() {
    let folder = Folder::new("threads");
    folder.write("page", "text");
    let cache = folder.cache(&FileSettings::default());
    let look = || file(cache.look_up(&folder.name("page"), None, later(), Wait::Allowed).unwrap());
    let first = look();
    std::thread::scope(|scope| {
        let other = scope.spawn(look).join().unwrap();
        assert!(Arc::ptr_eq(&first, &other));
    });
}

#[test]
fn what_is_kept_is_bounded_and_a_scan_leaves_what_is_in_use() {
    let folder = Folder::new("bounds");
    let weight = (4 + folder.name("0000").len() + ENTRY_BYTES) as u64;
    let cache = folder.cache(&FileSettings { size: 100 * weight, ..FileSettings::default() });
    let names: Vec<String> = (0..2000).map(|number| format!("{number:04}")).collect();
    names.iter().for_each(|name| folder.write(name, name));
    let look = |name: &str| file(cache.look_up(&folder.name(name), None, later(), Wait::Allowed).unwrap());
    let hot: Vec<_> = names[..50].iter().map(|name| look(name)).collect();
    for name in &names[..50] {
        (0..3).for_each(|_| drop(look(name)));
    }
    for (number, name) in names[50..].iter().enumerate() {
        let scanned = Arc::downgrade(&look(name));
        let hot_one = &names[number % 50];
        assert!(Arc::ptr_eq(&look(hot_one), &hot[number % 50]), "{hot_one} was thrown out by {name}");
        assert!(number > 0 || scanned.upgrade().is_some());
    }
    let kept = names.iter().filter(|name| {
        let name = folder.name(name);
        cache.lock().get(Name { path: &name, coding: None }).is_some()
    });
    assert!((50..=100).contains(&kept.count()));
}

#[test]
fn a_cache_without_room_keeps_nothing_and_serves_all() {
    let folder = Folder::new("no-room");
    folder.write("page", "text");
    let cache = folder.cache(&FileSettings { size: 0, ..FileSettings::default() });
    for _ in 0..3 {
        assert_eq!(said(&cache, &folder.name("page"), later()), "text");
    }
    assert!(cache.lock().get(Name { path: &folder.name("page"), coding: None }).is_none());
}

#[test]
fn what_the_kernel_has_at_hand_is_looked_up_without_waiting() {
    let folder = Folder::new("cached");
    folder.write("page", "text");
    folder.write("large", &large("x"));
    for links in [Links::Follow, Links::Refuse] {
        let cache = folder.cache(&FileSettings { links, ..FileSettings::default() });
        for (name, expected) in [("page", "text".to_owned()), ("large", large("x"))] {
            // Twice: unknown, and known.
            for _ in 0..2 {
                match cache.look_up(&folder.name(name), None, later(), Wait::Never) {
                    Ok(found) => assert_eq!(text(&file(found)), expected),
                    // A file system of which the kernel keeps no names; then what was looked up by waiting is known.
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                        assert_eq!(said(&cache, &folder.name(name), later()), expected);
                    }
                }
            }
        }
    }
}

#[test]
fn links_are_followed_as_far_as_their_rule_allows() {
    let folder = Folder::new("links");
    fs::create_dir_all(folder.path("folder/deep")).unwrap();
    folder.write("folder/deep/page", "deep");
    folder.write("page", "page");
    fs::write(folder.0.join("outside"), "outside").unwrap();
    let link = |target: &str, name: &str| symlink(target, folder.path(name)).unwrap();
    link("page", "own");
    link("folder", "own-folder");
    link("deep/page", "folder/relative");
    link("../../outside", "folder/outside");
    link("/etc/passwd", "absolute");
    link("none", "dangling");
    link("loop", "loop");
    symlink(folder.0.join("root"), folder.0.join("alias")).unwrap();
    let eloop = Errno::ELOOP.to_string();
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        for name in ["own", "folder/relative"] {
            let link = folder.path(name);
            std::os::unix::fs::lchown(link, Some(12_345), None).unwrap();
        }
    }
    let mine = |content: &str| if is_root { eloop.clone() } else { content.to_owned() };
    let none = Errno::ENOENT.to_string();
    let rows = [
        ("page", "page".to_owned(), "page".to_owned(), "page".to_owned()),
        ("folder/deep/page", "deep".to_owned(), "deep".to_owned(), "deep".to_owned()),
        ("folder/deep", "directory".to_owned(), "directory".to_owned(), "directory".to_owned()),
        ("own", "page".to_owned(), mine("page"), eloop.clone()),
        ("own-folder/deep/page", "deep".to_owned(), "deep".to_owned(), eloop.clone()),
        ("own-folder/", "directory".to_owned(), "directory".to_owned(), eloop.clone()),
        ("folder/relative", "deep".to_owned(), mine("deep"), eloop.clone()),
        ("folder/outside", "outside".to_owned(), "outside".to_owned(), eloop.clone()),
        ("absolute", passwd.clone(), if is_root { passwd.clone() } else { eloop.clone() }, eloop.clone()),
        ("dangling", none.clone(), none.clone(), eloop.clone()),
        ("loop", eloop.clone(), eloop.clone(), eloop.clone()),
        ("none/page", none.clone(), none.clone(), none.clone()),
        ("page/more", Errno::ENOTDIR.to_string(), Errno::ENOTDIR.to_string(), Errno::ENOTDIR.to_string()),
    ];
    for root in ["root", "alias"] {
        for (name, followed, by_owner, refused) in &rows {
            for (links, expected) in
                [(Links::Follow, followed), (Links::OwnerMatch, by_owner), (Links::Refuse, refused)]
            {
                let root = folder.0.join(root);
                let cache =
                    FileCache::new(&FileSettings { links, ..FileSettings::default() }, root.clone(), Types::new());
                let name = root.join(name).into_os_string().into_encoded_bytes();
                for _ in 0..2 {
                    assert_eq!(&said(&cache, &name, later()), expected, "{links:?} {}", String::from_utf8_lossy(&name));
                }
            }
        }
    }
}

/// While somebody swaps a directory and a link to a secret under the same name, no look-up ever gives the secret.
#[test]
fn a_link_that_comes_and_goes_is_never_followed() {
    let folder = Folder::new("race");
    fs::create_dir(folder.path("folder")).unwrap();
    folder.write("folder/page", "public");
    fs::create_dir(folder.0.join("private")).unwrap();
    fs::write(folder.0.join("private/page"), "secret").unwrap();
    symlink("../private", folder.path("trap")).unwrap();
    if nix::unistd::geteuid().is_root() {
        // The attacker's link is not the secret's owner's.
        std::os::unix::fs::lchown(folder.path("trap"), Some(12_345), None).unwrap();
    }
    let rules: &[Links] = match nix::unistd::geteuid().is_root() {
        true => &[Links::Refuse, Links::OwnerMatch],
        false => &[Links::Refuse],
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (one, other) = (c_path(&folder.path("folder")), c_path(&folder.path("trap")));
            while !done.load(Ordering::Relaxed) {
                swap(&one, &other);
            }
        });
        let mut seen = std::collections::HashMap::new();
        for number in 0..10_000 {
            // A new cache each time: a look-up that has to open and read.
            let links = rules[number % rules.len()];
            let cache = folder.cache(&FileSettings { links, ..FileSettings::default() });
            for _ in 0..2 {
                *seen.entry(said(&cache, &folder.name("folder/page"), later())).or_insert(0) += 1;
            }
        }
        done.store(true, Ordering::Relaxed);
        let expected = ["public".to_owned(), Errno::ELOOP.to_string(), Errno::ENOTDIR.to_string()];
        assert!(seen.keys().all(|key| expected.contains(key)), "{seen:?}");
        assert!(seen["public"] > 0 && seen[&expected[1]] > 0, "the swapping was not seen: {seen:?}");
    });
}

fn c_path(path: &Path) -> std::ffi::CString {
    std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Exchanges two names in one step.
fn swap(one: &CStr, other: &CStr) {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE).unwrap();
}

/// A sibling is looked for anew like any file; that there is none is remembered, and found out when there is one.
#[test]
fn a_sibling_is_there_as_soon_as_it_is_there() {
    let folder = Folder::new("sibling");
    let settings = FileSettings { precompressed: vec![ContentCoding::Brotli], ..FileSettings::default() };
    let cache = folder.cache(&settings);
    folder.write("page.html", "plain");
    let name = folder.name("page.html");
    let sibling = || match cache.look_up(&name, Some(ContentCoding::Brotli), later(), Wait::Allowed) {
        Ok(found) => {
            let resource = file(found);
            let head = String::from_utf8(resource.whole_head().to_vec()).unwrap();
            assert!(head.contains("-br\"\r\nVary: Accept-Encoding\r\n"), "{head}");
            assert!(head.ends_with("Content-Type: text/html\r\nContent-Encoding: br\r\n\r\n"), "{head}");
            text(&resource)
        }
        Err(error) => error.kind().to_string(),
    };
    let none = io::ErrorKind::NotFound.to_string();
    for _ in 0..2 {
        assert_eq!((said(&cache, &name, later()), sibling()), ("plain".to_owned(), none.clone()));
    }
    folder.write("page.html.br", "pressed");
    for _ in 0..2 {
        assert_eq!((said(&cache, &name, later()), sibling()), ("plain".to_owned(), "pressed".to_owned()));
    }
    // By its own name it is a file like others.
    let itself = file(cache.look_up(&folder.name("page.html.br"), None, later(), Wait::Allowed).unwrap());
    assert!(!String::from_utf8_lossy(itself.whole_head()).contains("Content-Encoding"));
    fs::remove_file(folder.path("page.html.br")).unwrap();
    assert_eq!((said(&cache, &name, later()), sibling()), ("plain".to_owned(), none));
}
