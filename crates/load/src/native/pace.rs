//! The options that say what begins requests: a rate, stages of rates, or the end of the request before and a pause.

use std::time::Duration;

use super::args::Options;
use crate::schedule::{Arrivals, Pace, Stage, Think};
use crate::units::{RATE_MAX, duration, rate};

/// Stages at most.
const STAGES_MAX: usize = 1000;
/// How long an open loop's last requests may take, unless said otherwise.
pub const DRAIN: Duration = Duration::from_secs(5);

/// What was given so far.
#[derive(Debug, Default)]
pub struct Pacing {
    rate: Option<f64>,
    stages: Vec<Stage>,
    arrivals: Option<Arrivals>,
    think: Option<Think>,
    /// `--drain`.
    pub drain: Option<Duration>,
}

impl Pacing {
    /// `--rate`.
    ///
    /// # Errors
    /// A sentence for the user, as those of all others.
    pub fn rate(&mut self, given: &str) -> Result<(), String> {
        let rate = rate(given).filter(|rate| *rate > 0.0);
        self.rate = Some(rate.ok_or_else(|| {
            format!(
                "--rate {given}: requests a second are needed, above 0 and at most {RATE_MAX}, as 250, 0.5 or 30/min"
            )
        })?);
        Ok(())
    }

    /// `--stage`.
    pub fn stage(&mut self, given: &str) -> Result<(), String> {
        let wrong = || format!("{given}: RATE:SECONDS or RATE..RATE:SECONDS is needed, as 100:30 or 0..500:10");
        let (rates, seconds) = given.rsplit_once(':').ok_or_else(wrong)?;
        let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
        let (from, to) = rate(from).zip(rate(to)).ok_or_else(wrong)?;
        let length = duration(seconds).filter(|length| !length.is_zero()).ok_or_else(wrong)?;
        if self.stages.len() == STAGES_MAX {
            return Err(format!("more than {STAGES_MAX} stages"));
        }
        self.stages.push(Stage { from, to, length: Some(length) });
        Ok(())
    }

    /// `--arrivals`.
    pub fn arrivals(&mut self, given: &str) -> Result<(), String> {
        self.arrivals = Some(match given {
            "constant" => Arrivals::Constant,
            "poisson" => Arrivals::Poisson,
            _ => return Err(format!("{given}: `constant` or `poisson` is needed")),
        });
        Ok(())
    }

    /// `--think`.
    pub fn think(&mut self, given: &str) -> Result<(), String> {
        let wrong = || format!("{given}: a time is needed, as 500ms, 0.5, 1..3 or exp:2");
        let think = match (given.strip_prefix("exp:"), given.split_once("..")) {
            (Some(mean), _) => Think::Exponential(duration(mean).ok_or_else(wrong)?),
            (None, Some((from, to))) => {
                let (from, to) = duration(from).zip(duration(to)).ok_or_else(wrong)?;
                if from > to {
                    return Err(wrong());
                }
                Think::Uniform(from, to)
            }
            (None, None) => duration(given).map(|always| Think::Uniform(always, always)).ok_or_else(wrong)?,
        };
        self.think = Some(think);
        Ok(())
    }

    /// A search begins with this rate, unless `--rate` has said another, which is returned.
    pub fn begin_at(&mut self, start: f64) -> Result<f64, String> {
        if !self.stages.is_empty() {
            return Err("--find-max chooses the rates; leave out --stage, or say with --rate where to begin".to_owned());
        }
        Ok(*self.rate.get_or_insert(start))
    }

    /// All arguments were read: fills in the pace, and what follows from it.
    pub fn finish(self, options: &mut Options) -> Result<(), String> {
        let stages = match self.rate {
            Some(_) if !self.stages.is_empty() => return Err("give one of --rate and --stage".to_owned()),
            Some(rate) => vec![Stage { from: rate, to: rate, length: None }],
            None => self.stages,
        };
        if stages.is_empty() {
            if self.arrivals.is_some() {
                return Err("--arrivals needs --rate or --stage".to_owned());
            }
            options.pace = Pace::Closed(self.think.unwrap_or_default());
            options.drain = self.drain.unwrap_or_default();
            return Ok(());
        }
        if self.think.is_some() {
            return Err("--think is of the closed loop; with --rate or --stage the schedule says when".to_owned());
        }
        if !options.ramp_up.is_zero() {
            return Err("--ramp-up is of the closed loop; let the rate grow with --stage 0..RATE:SECONDS".to_owned());
        }
        if stages.iter().all(|stage| stage.from + stage.to == 0.0) {
            return Err("these stages have no request at all".to_owned());
        }
        if let Some(all) = stages.iter().map(|stage| stage.length).sum::<Option<Duration>>() {
            options.duration = Some(options.duration.map_or(all, |given| given.min(all)));
        }
        options.pace = Pace::Open { stages, arrivals: self.arrivals.unwrap_or_default() };
        options.drain = self.drain.unwrap_or(DRAIN);
        Ok(())
    }
}

impl Options {
    /// The pace from the run's beginning: a warm-up goes at the rate with which the window will begin.
    pub fn pace_with_warmup(&self) -> Pace {
        match &self.pace {
            Pace::Open { stages, arrivals } if !self.warmup.is_zero() => {
                let first = stages[0].from;
                let mut all = vec![Stage { from: first, to: first, length: Some(self.warmup) }];
                all.extend_from_slice(stages);
                Pace::Open { stages: all, arrivals: *arrivals }
            }
            pace => pace.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::args::{Command, parse};

    fn read(line: &str) -> Options {
        match parse(line.split_whitespace().map(std::ffi::OsString::from)) {
            Ok(Command::Run(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn rates_and_stages_are_read() {
        let check = |line: &str, expected: &[(f64, f64, Option<u64>)], arrivals: Arrivals, duration: Option<u64>| {
            let options = read(&format!("http://h/ {line}"));
            let stage = |(from, to, seconds): &(f64, f64, Option<u64>)| Stage {
                from: *from,
                to: *to,
                length: seconds.map(Duration::from_secs),
            };
            let stages = expected.iter().map(stage).collect();
            assert_eq!(options.pace, Pace::Open { stages, arrivals }, "{line}");
            assert_eq!(options.duration, duration.map(Duration::from_secs), "{line}");
        };
        check("-n 10 --rate 250", &[(250.0, 250.0, None)], Arrivals::Constant, None);
        check("-t 9 --rate 30/min --arrivals poisson", &[(0.5, 0.5, None)], Arrivals::Poisson, Some(9));
        let stages = "--stage 0..100:10 --stage 100:20 --stage 500:1";
        let expected = [(0.0, 100.0, Some(10)), (100.0, 100.0, Some(20)), (500.0, 500.0, Some(1))];
        check(stages, &expected, Arrivals::Constant, Some(31));
        check(&format!("{stages} -t 5"), &expected, Arrivals::Constant, Some(5));
    }

    #[test]
    fn a_warm_up_goes_at_the_first_rate() {
        let Pace::Open { stages, .. } = read("http://h/ --stage 10..20:5 --warmup 2").pace_with_warmup() else {
            panic!("an open loop")
        };
        assert_eq!(stages[0], Stage { from: 10.0, to: 10.0, length: Some(Duration::from_secs(2)) });
        assert_eq!(stages.len(), 2);
    }

    #[test]
    fn pauses_are_read() {
        let ms = Duration::from_millis;
        for (given, expected) in [
            ("0.5", Think::Uniform(ms(500), ms(500))),
            ("1..3", Think::Uniform(ms(1000), ms(3000))),
            ("exp:2", Think::Exponential(ms(2000))),
        ] {
            assert_eq!(read(&format!("http://h/ -n 10 --think {given}")).pace, Pace::Closed(expected));
        }
    }
}
