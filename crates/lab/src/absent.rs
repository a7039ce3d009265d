//! Which of the targets take part, and why the others do not: those wanted by name must, the rest are left out with a remark.

use std::path::Path;

use anyhow::{Result, bail};

use crate::progress;
use crate::results::Missing;
use crate::target::{Installed, Target};
use crate::text;

/// The targets that do not take part.
#[derive(Debug, Default)]
pub struct Absent {
    /// Whether the targets were named by the user.
    named: bool,
    /// Those left out so far.
    pub list: Vec<Missing>,
}

impl Absent {
    /// Nobody yet, of targets that the user named, or of all there are.
    pub fn of(named: bool) -> Absent {
        Absent { named, list: Vec::new() }
    }

    /// Which of `targets` are there; `manifold` is this program.
    ///
    /// # Errors
    /// Why one that was named is not.
    pub fn detect(&mut self, targets: &[&'static Target], manifold: &Path) -> Result<Vec<Installed>> {
        let mut installed = Vec::new();
        for target in targets {
            match target.detect(manifold) {
                Ok(found) => installed.push(found),
                Err(reason) => self.leave_out(target, &reason)?,
            }
        }
        Ok(installed)
    }

    /// Notes that a target does not take part.
    ///
    /// # Errors
    /// Where it was named.
    pub fn leave_out(&mut self, target: &Target, reason: &str) -> Result<()> {
        if self.named {
            bail!("--targets {}: {reason}", target.name);
        }
        progress::note(&format!("{} is left out: {reason}", target.label));
        self.list.push(Missing { label: target.label.to_owned(), reason: text::one_line(reason) });
        Ok(())
    }
}
