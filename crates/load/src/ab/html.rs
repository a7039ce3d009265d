//! ab's report as an HTML table (`-w`).

use std::fmt::{self, Write};

use super::collect::Counts;
use super::distribution::Sorted;
use super::report::{Figures, milliseconds};

/// The table; `attributes` are those of table, tr and td.
pub fn render(figures: &Figures, attributes: &[String; 3]) -> String {
    let mut text = String::new();
    let written = Table { out: &mut text, attributes }.write(figures);
    debug_assert!(written.is_ok(), "writing to a String cannot fail");
    text
}

struct Table<'t> {
    out: &'t mut String,
    attributes: &'t [String; 3],
}

impl Table<'_> {
    fn write(mut self, figures: &Figures) -> fmt::Result {
        let counts = &figures.counts;
        writeln!(self.out, "\n\n<table {}>", self.attributes[0])?;
        self.row("Server Software:", &figures.server)?;
        self.row("Server Hostname:", &escaped(&figures.host))?;
        self.row("Server Port:", &figures.port.to_string())?;
        self.row("Document Path:", &escaped(&figures.path))?;
        self.row("Document Length:", &figures.document_length())?;
        self.row("Concurrency Level:", &figures.concurrency.to_string())?;
        self.row("Time taken for tests:", &format!("{:.3} seconds", figures.seconds()))?;
        self.row("Complete requests:", &counts.done.to_string())?;
        self.row("Failed requests:", &counts.failed.to_string())?;
        if counts.failed > 0 {
            let [_, tr, td] = self.attributes;
            let Counts { connect, length, exceptions, .. } = counts;
            let classes = format!("   (Connect: {connect}, Length: {length}, Exceptions: {exceptions})");
            writeln!(self.out, "<tr {tr}><td colspan=4 {td} >{classes}</td></tr>")?;
        }
        if counts.non_2xx > 0 {
            self.row("Non-2xx responses:", &counts.non_2xx.to_string())?;
        }
        if figures.keep_alive {
            self.row("Keep-Alive requests:", &counts.kept_alive.to_string())?;
        }
        self.row("Total transferred:", &format!("{} bytes", counts.received))?;
        if figures.sends_body {
            self.row("Total body sent:", &counts.sent.to_string())?;
        }
        self.row("HTML transferred:", &format!("{} bytes", counts.body))?;
        self.rates(figures)?;
        if counts.done > 0 {
            self.times(figures)?;
        }
        writeln!(self.out, "</table>")
    }

    fn row(&mut self, name: &str, value: &str) -> fmt::Result {
        let [_, tr, td] = self.attributes;
        writeln!(self.out, "<tr {tr}><th colspan=2 {td}>{name}</th><td colspan=2 {td}>{value}</td></tr>")
    }

    fn rates(&mut self, figures: &Figures) -> fmt::Result {
        let seconds = figures.seconds();
        let Counts { done, received, sent, .. } = figures.counts;
        let kilobytes = |bytes: u64| bytes as f64 / 1024.0 / seconds;
        self.row("Requests per second:", &format!("{:.2}", done as f64 / seconds))?;
        self.row("Transfer rate:", &format!("{:.2} kb/s received", kilobytes(received)))?;
        if figures.sends_body {
            let [_, tr, td] = self.attributes;
            for (rate, what) in [(kilobytes(sent), "sent"), (kilobytes(received + sent), "total")] {
                writeln!(
                    self.out,
                    "<tr {tr}><td colspan=2 {td}>&nbsp;</td><td colspan=2 {td}>{rate:.2} kb/s {what}</td></tr>"
                )?;
            }
        }
        Ok(())
    }

    fn times(&mut self, figures: &Figures) -> fmt::Result {
        let [_, tr, td] = self.attributes;
        writeln!(self.out, "<tr {tr}><th {td} colspan=4>Connection Times (ms)</th></tr>")?;
        writeln!(
            self.out,
            "<tr {tr}><th {td}>&nbsp;</th> <th {td}>min</th>   <th {td}>avg</th>   <th {td}>max</th></tr>"
        )?;
        let row = |sorted: &Sorted| {
            [milliseconds(sorted.min()), milliseconds(sorted.sum()) / figures.counts.done, milliseconds(sorted.max())]
        };
        let (connect, total) = (row(&figures.connect), row(&figures.total));
        // The original has no times of processing here, but differences of the other two.
        let processing = std::array::from_fn(|cell| total[cell].saturating_sub(connect[cell]));
        for (name, [min, mean, max]) in [("Connect:", connect), ("Processing:", processing), ("Total:", total)] {
            writeln!(
                self.out,
                "<tr {tr}><th {td}>{name}</th><td {td}>{min:>5}</td><td {td}>{mean:>5}</td><td {td}>{max:>5}</td></tr>"
            )?;
        }
        Ok(())
    }
}

/// What the command line gave, safe inside the page.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_attributes_given() {
        let figures = Figures {
            server: "s".into(),
            host: "h".into(),
            port: 80,
            path: "/?a&b".into(),
            length: Some(1),
            concurrency: 1,
            taken_us: 1_000_000,
            counts: Counts { done: 2, failed: 1, length: 1, received: 2048, ..Counts::default() },
            ..Figures::default()
        };
        let text = render(&figures, &["t=1".into(), "r=2".into(), "d=3".into()]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "<table t=1>");
        assert_eq!(lines[6], "<tr r=2><th colspan=2 d=3>Document Path:</th><td colspan=2 d=3>/?a&amp;b</td></tr>");
        assert_eq!(lines[12], "<tr r=2><td colspan=4 d=3 >   (Connect: 0, Length: 1, Exceptions: 0)</td></tr>");
        assert_eq!(
            lines[16],
            "<tr r=2><th colspan=2 d=3>Transfer rate:</th><td colspan=2 d=3>2.00 kb/s received</td></tr>"
        );
        assert_eq!(
            lines[19],
            "<tr r=2><th d=3>Connect:</th><td d=3>    0</td><td d=3>    0</td><td d=3>    0</td></tr>"
        );
        assert_eq!(lines.last(), Some(&"</table>"));
    }
}
