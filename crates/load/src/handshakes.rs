//! What is kept of TLS: how long handshakes took, what they led to, and what failed, in words.

use std::collections::BTreeMap;

use rustls::{CipherSuite, ProtocolVersion};

use crate::latencies::Latencies;
use crate::report::{Distribution, Summary, Tls};
use crate::tls::{Secured, names};

/// So many different texts of failures a thread keeps; one fault of a server has one.
const TEXTS_MAX: usize = 5;
/// Letters of a text at most: a server's certificate has a say in it.
const LETTERS_MAX: usize = 300;

/// Handshakes and failures of the window.
#[derive(Clone, Debug, Default)]
pub struct Handshakes {
    /// Made with the first of them.
    latencies: Option<Box<Latencies>>,
    resumed: u64,
    /// By version and suite.
    negotiated: BTreeMap<String, u64>,
    failures: BTreeMap<String, u64>,
    /// The last version and suite and their name; it is the next one's as well, nearly always.
    last: Option<(ProtocolVersion, CipherSuite, String)>,
}

impl Handshakes {
    /// A handshake is over.
    pub fn count(&mut self, secured: &Secured) {
        let Secured { version, suite, resumed, nanoseconds, .. } = *secured;
        self.latencies.get_or_insert_default().record(nanoseconds);
        self.resumed += u64::from(resumed);
        let (.., name) = match self.last.take() {
            Some(last) if (last.0, last.1) == (version, suite) => self.last.insert(last),
            _ => {
                let name = format!("{} {}", names::version(version), names::openssl(suite));
                self.last.insert((version, suite, name))
            }
        };
        match self.negotiated.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                self.negotiated.insert(name.clone(), 1);
            }
        }
    }

    /// A connection is not secured, or not any more.
    pub fn count_failure(&mut self, said: &str) {
        if let Some(known) = self.failures.get_mut(said) {
            *known += 1;
        } else if self.failures.len() < TEXTS_MAX {
            self.failures.insert(said.chars().take(LETTERS_MAX).collect(), 1);
        }
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Handshakes) {
        if let Some(latencies) = &other.latencies {
            self.latencies.get_or_insert_default().merge(latencies);
        }
        self.resumed += other.resumed;
        for (sum, more) in [(&mut self.negotiated, &other.negotiated), (&mut self.failures, &other.failures)] {
            for (name, count) in more {
                *sum.entry(name.clone()).or_default() += count;
            }
        }
    }

    /// As it is reported; none where there was no TLS.
    pub fn report(&self) -> Option<Tls> {
        let latencies = self.latencies.as_deref();
        let tls = Tls {
            handshakes: latencies.map_or(0, Latencies::count),
            resumed: self.resumed,
            handshake_us: latencies.and_then(Summary::of),
            handshake_histogram: latencies.and_then(Distribution::of),
            negotiated: self.negotiated.clone(),
            failures: self.failures.clone(),
        };
        (tls.handshakes > 0 || !tls.failures.is_empty()).then_some(tls)
    }

    /// What was reported, again.
    ///
    /// # Errors
    /// A sentence, if the report contradicts itself.
    pub fn of_report(tls: &Tls) -> Result<Handshakes, String> {
        let latencies = tls.handshake_histogram.as_ref().map(Distribution::latencies).transpose()?;
        if latencies.as_ref().map_or(0, Latencies::count) != tls.handshakes || tls.resumed > tls.handshakes {
            return Err("its figures contradict each other: tls".to_owned());
        }
        Ok(Handshakes {
            latencies: latencies.map(Box::new),
            resumed: tls.resumed,
            negotiated: tls.negotiated.clone(),
            failures: tls.failures.clone(),
            last: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_added_up_and_texts_are_bounded() {
        let secured = |suite, resumed| Secured {
            version: ProtocolVersion::TLSv1_3,
            suite,
            group: None,
            key_bits: None,
            resumed,
            http2: false,
            nanoseconds: 1000,
        };
        let (one, other) = (CipherSuite::TLS13_AES_128_GCM_SHA256, CipherSuite::TLS13_AES_256_GCM_SHA384);
        let mut sum = Handshakes::default();
        assert_eq!(sum.report(), None);
        let mut thread = Handshakes::default();
        thread.count(&secured(one, false));
        thread.count(&secured(one, true));
        thread.count(&secured(other, true));
        (0..10).for_each(|number| thread.count_failure(&format!("text {number}")));
        thread.count_failure("text 0");
        sum.merge(&thread);
        sum.merge(&thread);
        let tls = sum.report().expect("there was TLS");
        assert_eq!((tls.handshakes, tls.resumed), (6, 4));
        let counts: Vec<_> = tls.negotiated.clone().into_iter().collect();
        let named = |name: &str, count| (name.to_owned(), count);
        assert_eq!(counts, [named("TLSv1.3 TLS_AES_128_GCM_SHA256", 4), named("TLSv1.3 TLS_AES_256_GCM_SHA384", 2)]);
        assert_eq!((tls.failures.len(), tls.failures["text 0"]), (TEXTS_MAX, 4));
        assert_eq!(Handshakes::of_report(&tls).expect("it is ours").report(), Some(tls.clone()));
        assert!(Handshakes::of_report(&Tls { handshakes: 7, ..tls }).is_err());
    }
}
