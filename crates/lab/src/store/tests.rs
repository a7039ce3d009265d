//! Runs that are kept, gone on with, deleted, and found in states that no run of ours left.

use super::*;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("manifold-lab-store-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Folder(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("below/lab.sqlite")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn new_run<'a>(name: &'a str, folder: &'a Path) -> NewRun<'a> {
    let (command, started) = ("manifold lab run a-a --seed 1", "2026-11-21 09:30:00");
    NewRun { kind: "study", name, command, started, folder, plan: Some("{}") }
}

fn key(round: u32, target: &str) -> Key {
    Key { part: "a-a".to_owned(), round, target: target.to_owned(), load: "c = 10".to_owned() }
}

#[test]
fn a_run_is_kept_cell_by_cell_and_outlives_its_laboratory() {
    let folder = Folder::new("kept");
    let mut store = Store::open(&folder.file()).expect("a store");
    let run = store.begin(&new_run("a-a", &folder.0)).expect("it begins");
    store.cell(run, &key(0, "a"), "{\"x\":1}", 1.5).expect("a cell");
    store.cell(run, &key(0, "b"), "{\"x\":2}", 3.0).expect("a cell");
    drop(store);

    let mut store = Store::open(&folder.file()).expect("the same store");
    let found = store.run("last").expect("it is there");
    assert_eq!((found.id, found.cells, found.took_s, &found.state), (run, 2, 3.0, &State::Running));
    let said = store.delete(&found).expect_err("it is being measured").to_string();
    assert!(said.contains("is being measured"), "{said}");
    assert_eq!(store.cells(run).expect("cells")[1], (key(0, "b"), "{\"x\":2}".to_owned()));

    let values = [Value { key: key(0, "a"), metric: "p99".to_owned(), value: 7.5 }];
    let outcome = Outcome { ended_early: None, took_s: 4.0, headline: "Equal.", document: "{}", values: &values };
    store.end(run, &outcome).expect("it ends");
    let found = store.run(&run.to_string()).expect("it is there");
    assert_eq!(
        (&found.state, found.headline.as_str(), found.document.as_deref()),
        (&State::Complete, "Equal.", Some("{}"))
    );
    assert_eq!(store.values(run).expect("values"), values);
    assert!(store.runs().expect("all")[0].document.is_none(), "lists leave documents out");

    store.delete(&found).expect("it can be deleted");
    assert!(store.runs().expect("none").is_empty() && store.cells(run).expect("none").is_empty());
    let said = store.run("last").expect_err("none is left").to_string();
    assert!(said.contains("there is no run last"), "{said}");
}

#[test]
fn a_run_whose_process_is_gone_was_interrupted_and_can_be_taken_up() {
    let folder = Folder::new("gone");
    let store = Store::open(&folder.file()).expect("a store");
    let run = store.begin(&new_run("a-a", &folder.0)).expect("it begins");
    for (owner, state) in [
        (this_process(), State::Running),
        // The same number, but another process had it; another boot; nonsense.
        (format!("{} {} 1", boot(), std::process::id()), State::Interrupted),
        (
            format!("another-boot {} {}", std::process::id(), start_time(std::process::id()).expect("it is us")),
            State::Interrupted,
        ),
        (String::new(), State::Interrupted),
    ] {
        store.db.execute("UPDATE run SET owner = ?", params![owner]).expect("it can be changed");
        assert_eq!(store.run("last").expect("it is there").state, state, "{owner}");
    }
    store.take_up(run).expect("it can be");
    assert_eq!(store.run("last").expect("it is there").state, State::Running);
}

#[test]
fn two_laboratories_write_at_once() {
    let folder = Folder::new("two");
    let write = |name: &'static str| {
        let file = folder.file();
        move || {
            let mut store = Store::open(&file).expect("a store");
            let run = store.begin(&new_run(name, &file)).expect("it begins");
            for round in 0..50 {
                store.cell(run, &key(round, name), "{}", 0.0).expect("a cell");
            }
        }
    };
    let others: Vec<_> = ["a", "b", "c"]
        .map(|name| std::thread::Builder::new().spawn(write(name)).expect("a thread"))
        .into_iter()
        .collect();
    others.into_iter().for_each(|other| other.join().expect("it wrote"));
    let runs = Store::open(&folder.file()).expect("a store").runs().expect("all");
    assert_eq!(runs.iter().map(|run| run.cells).collect::<Vec<_>>(), [50, 50, 50]);
}

#[test]
fn what_is_no_store_of_ours_is_left_as_it_is() {
    let folder = Folder::new("other");
    let file = folder.file();
    drop(Store::open(&file).expect("a store"));
    let newer = Connection::open(&file).expect("a database");
    newer.pragma_update(None, "user_version", 99).expect("it can be changed");
    drop(newer);
    let said = format!("{:#}", Store::open(&file).expect_err("it is newer"));
    assert!(said.contains("version 99") && said.contains(VARIABLE), "{said}");

    fs::write(&file, "not a database, but long enough to be looked at as if it were one").expect("it can be written");
    for left in ["-wal", "-shm"] {
        let _ = fs::remove_file(file.with_extension(format!("sqlite{left}")));
    }
    let said = format!("{:#}", Store::open(&file).expect_err("it is text"));
    assert!(said.contains("lab.sqlite") && said.contains("not a database"), "{said}");
    assert!(fs::read_to_string(&file).expect("it is there").starts_with("not a database"));
}

#[test]
fn the_place_follows_the_environment() {
    let check = |set: &[(&str, &str)], expected: Option<&str>| {
        let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value));
        assert_eq!(place(variable).expect("a place"), expected.map(PathBuf::from), "{set:?}");
    };
    check(&[("HOME", "/h")], Some("/h/.local/share/manifold/lab.sqlite"));
    check(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d")], Some("/d/manifold/lab.sqlite"));
    check(&[("HOME", "/h"), ("XDG_DATA_HOME", "")], Some("/h/.local/share/manifold/lab.sqlite"));
    check(&[("HOME", "/h"), (VARIABLE, "/tmp/x")], Some("/tmp/x"));
    check(&[(VARIABLE, "none")], None);
    let said = place(|_| None).expect_err("there is none").to_string();
    assert!(said.contains(VARIABLE), "{said}");
}
