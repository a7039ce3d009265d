//! A search as text: its beginning, a row for each step, and what it found.

use super::result::{Maximum, Outcome, Step, Verdict};

/// What stands above the rows.
pub fn beginning(maximum: &Maximum) -> String {
    let Maximum { url, address, connections, .. } = maximum;
    let kept = if maximum.keep_alive { "kept alive" } else { "one request each" };
    let threads = if maximum.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", maximum.threads) };
    let conditions = maximum.conditions.join(", ");
    let precision = maximum.precision * 100.0;
    format!(
        "{url} at {address}: {connections} connections, {kept}, {threads}\n\
         Searching the highest rate with {conditions}, to {precision} %, {} arrivals\n\n\
         {:>11} {:>11} {:>8} {:>11} {:>11} {:>21}\n",
        maximum.arrivals, "due /s", "answered /s", "seconds", "p50 ms", "p99 ms", "bad (95 % interval)"
    )
}

/// One step.
pub fn row(step: &Step) -> String {
    let time = |of: fn(&crate::report::Summary) -> f64| {
        step.latency_us.as_ref().map_or("-".to_owned(), |latency| format!("{:.2}", of(latency) / 1000.0))
    };
    // The condition that is nearest to failing, or beyond.
    let worst = step.conditions.iter().max_by(|one, other| {
        let excess = |share: &super::result::Share| share.bad.unwrap_or(1.0) / share.allowed;
        excess(one).total_cmp(&excess(other))
    });
    let bad = worst.map_or(String::new(), |share| {
        let percent = |part: f64| format!("{:.2}", part * 100.0);
        let bad = share.bad.map_or("-".to_owned(), percent);
        format!("{bad} % ({}..{})", percent(share.low), percent(share.high))
    });
    let verdict = match step.verdict {
        Verdict::Holds => "holds",
        Verdict::Fails => "fails",
        Verdict::Undecided => "undecided",
        Verdict::Invalid => "invalid: the generator was late",
    };
    format!(
        "{:>11.1} {:>11.1} {:>8.1} {:>11} {:>11} {bad:>21}  {verdict}\n",
        step.rate,
        step.answered,
        step.seconds,
        time(|latency| latency.p50),
        time(|latency| latency.p99)
    )
}

/// What was found.
pub fn end(maximum: &Maximum) -> String {
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.1}"));
    let (best, holds, fails) = (rate(maximum.maximum), rate(maximum.holds), rate(maximum.fails));
    let conditions = maximum.conditions.join(", ");
    let lowest = maximum.steps.iter().map(|step| step.rate).reduce(f64::min);
    let found = match maximum.outcome {
        Outcome::Found => format!("{best} /s   with {conditions}; surely held at {holds} /s, surely not at {fails} /s"),
        Outcome::AtLeast if maximum.fails.is_some() => {
            format!("at least {holds} /s   with {conditions}; the generator is the limit: it could not keep {fails} /s")
        }
        Outcome::AtLeast => format!("at least {holds} /s   with {conditions}; that is the highest rate there is"),
        Outcome::Never => format!("none   {conditions} did not hold at {} /s either", rate(lowest)),
        Outcome::Open => match maximum.holds {
            Some(_) => format!("at least {holds} /s   with {conditions}; the search did not come to its end"),
            None => format!("unknown   the search did not come to its end; {conditions} was not seen to hold"),
        },
    };
    let mut text = format!("\nMaximum     {found}\n");
    let steps = maximum.steps.len();
    text.push_str(&format!("Steps       {steps} in {:.0} s\n", maximum.seconds));
    for note in &maximum.notes {
        text.push_str(&format!("WARNING: {}\n", note.meaning()));
    }
    text
}
