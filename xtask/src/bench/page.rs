//! The page of the book that tells what a request costs: the kept counts of whole servers, as tables.

use super::baseline::{Cost, Counts};
use super::server::MODELS;
use super::workload::WORKLOADS;

/// Where the page is.
pub const PAGE: &str = "docs/src/cost.md";

const PREFACE: &str = "# What a request costs

<!-- Made by `cargo xtask bench --bless` from what it counted. -->

`cargo xtask bench` counts what a request costs a whole server of each model: one process (`-X`) with the configuration that a site has,
under valgrind and under strace. Start-up and warming up are left out. Counts are the same on a busy machine as on an idle one, so that
every change is held to them: a rise by more than 3 % fails the tests.

One connection and one request at a time is the most that a request can cost where a thread waits for many connections: it pays for being
woken alone. *At once* is the same server when 50 connections have a request for it. prefork and worker hold one connection
a thread, so that for them there is no such difference. *percore-epoll* is percore where io_uring is refused.

Where 10 MB are sent, the counts depend on how fast the client reads.
";

/// What stands in a cell.
type Cell = fn(&Cost) -> String;

/// Renders it.
pub fn render(counts: &Counts) -> String {
    let mut page = PREFACE.to_owned();
    let tables: [(&str, &str, Cell); 3] = [
        ("Instructions", "Instructions in user space, by callgrind.", |cost| format!("{:.0}", cost.instructions)),
        ("System calls", "System calls of all threads, by strace.", |cost| format!("{:.2}", cost.calls)),
        ("Allocations", "Calls of `malloc` and its kin, by callgrind.", |cost| format!("{:.2}", cost.allocations)),
    ];
    for (title, about, cell) in tables {
        page.push_str(&format!("\n## {title}\n\n{about}\n\n| |"));
        MODELS.iter().for_each(|model| page.push_str(&format!(" {} |", model.name)));
        page.push_str(&format!("\n|---|{}\n", "--:|".repeat(MODELS.len())));
        for workload in WORKLOADS {
            page.push_str(&format!("| {} |", workload.name));
            for model in MODELS {
                let cost = counts.served.get(&format!("{} {}", model.name, workload.name));
                page.push_str(&format!(" {} |", cost.map_or_else(String::new, cell)));
            }
            page.push('\n');
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::bench::baseline::BASELINE;
    use crate::run::root;

    #[test]
    fn the_page_says_what_the_baseline_does() {
        let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
        let page = render(&Counts::parse(&read(BASELINE)).unwrap());
        assert!(read(PAGE) == page, "{PAGE} is not made of {BASELINE}; `cargo xtask bench --bless` writes both");
    }

    #[test]
    fn a_cost_stands_in_the_row_of_its_workload_and_the_column_of_its_model() {
        let cost = Cost { instructions: 2999.0, calls: 0.25, allocations: 0.0 };
        let served = [("percore 6-bytes".to_owned(), cost)].into_iter().collect();
        let page = render(&Counts { served, ..Counts::default() });
        for row in ["| 6-bytes | | | | 2999 | |", "| 6-bytes | | | | 0.25 | |", "| 6-bytes | | | | 0.00 | |"] {
            let found = page.lines().any(|line| line.split_whitespace().eq(row.split_whitespace()));
            assert!(found, "{row} in {page}");
        }
    }
}
