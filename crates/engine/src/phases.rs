//! The request phases, in Apache's order: the one list that says what happens to a request between its head and its
//! answer. Modules add hooks to phases; [`Phases::answer`] is the whole machinery.

use std::time::Instant;

use manifold_http::Status;

use crate::request::{Found, Request};
use crate::transaction::{LogTransaction, Transaction};

/// The steps that lead to an answer, in order, under Apache's hook names. `LogTransaction` follows once the answer was sent.
///
/// Apache runs `type_checker` before `fixups` and repeats it in a sub-request for a directory's index; here an index is
/// found first and typed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The answer that the same path got before, where it rests on nothing else: all that follows is skipped
    /// (`ap_hook_quick_handler`).
    QuickHandler,
    /// From the URL path to a file name (`ap_hook_translate_name`).
    TranslateName,
    /// What stands under that name: file, directory, nothing (`ap_hook_map_to_storage`).
    MapToStorage,
    /// Whether this client may have it (`ap_hook_access_checker`).
    AccessChecker,
    /// Last changes before the answer, such as a directory's index (`ap_hook_fixups`).
    Fixups,
    /// The media type of what was found (`ap_hook_type_checker`).
    TypeChecker,
    /// Makes the answer (`ap_hook_handler`).
    Handler,
}

/// What a hook made of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not this hook's concern: the next hook of the phase is asked.
    Declined,
    /// Done: the next phase follows.
    Done,
    /// The request ends here with this status; phases in between are skipped.
    Respond(Status),
    /// The hook would have to wait for a disk and [must not](Request::may_wait): a call in [`Request::later`] does so in its
    /// place. Once it was made the phase begins again, with its first hook.
    Later,
}

/// Which requests a hook is asked about. Most phases have nothing to do for most requests, and this tells so at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// All of them.
    Every,
    /// Those for a directory ([`Found::Directory`]).
    Directory,
    /// Those for which a handler was named ([`Request::handler`]).
    NamedHandler,
    /// Those for a file by its plain path ([`Request::is_plain`]).
    Plain,
}

impl Concern {
    #[inline]
    fn is_with(self, request: &Request) -> bool {
        match self {
            Concern::Every => true,
            Concern::Directory => matches!(request.found, Found::Directory),
            Concern::NamedHandler => request.handler.is_some(),
            Concern::Plain => request.is_plain(),
        }
    }
}

/// A module's part in one phase. Hooks never wait for a client, and for a disk only where they may.
pub trait Hook: Send + Sync {
    /// Looks at the request and changes it.
    fn run(&self, request: &mut Request) -> Outcome;

    /// Whether what the hook makes of a plain request of `path`, which is answered with a file, is the same for every client and
    /// whatever the fields say. Then it is not asked again before the file or the configuration changes
    /// ([`Phase::QuickHandler`]). Not unless a hook says so; one that reads `.htaccess` files, of which there is none yet, must not.
    fn rests_on_path(&self, path: &[u8]) -> bool {
        let _no_path_will_do = path;
        false
    }

    /// A handler has answered a plain request, and all hooks that are asked about it rest on its path: what a quick handler
    /// answers the next one with. Quick handlers alone are told.
    fn remember(&self, request: &Request) {
        let _hooks_of_other_phases_are_not_told = request;
    }
}

impl<F: Fn(&mut Request) -> Outcome + Send + Sync> Hook for F {
    fn run(&self, request: &mut Request) -> Outcome {
        self(request)
    }
}

/// A hook that [rests on the path](Hook::rests_on_path), whichever that is.
pub struct OfPath<F>(pub F);

impl<F: Fn(&mut Request) -> Outcome + Send + Sync> Hook for OfPath<F> {
    fn run(&self, request: &mut Request) -> Outcome {
        (self.0)(request)
    }

    fn rests_on_path(&self, _: &[u8]) -> bool {
        true
    }
}

/// A hook, and when it is asked.
struct Asked {
    phase: Phase,
    concern: Concern,
    hook: Box<dyn Hook>,
}

/// All hooks of a site.
#[derive(Default)]
pub struct Phases {
    /// Those of [`Phase::QuickHandler`], apart, because most requests get no further.
    quick: Vec<Asked>,
    /// The others, in the order of their phases, and in each in the order in which they were added.
    hooks: Vec<Asked>,
    logs: Vec<Box<dyn LogTransaction>>,
    needs_head: bool,
}

impl Phases {
    /// Phases without hooks: every request ends with 404.
    pub fn new() -> Phases {
        Phases::default()
    }

    /// Appends a hook to a phase.
    pub fn add(&mut self, phase: Phase, hook: impl Hook + 'static) {
        self.add_for(Concern::Every, phase, hook);
    }

    /// Appends a hook that is asked about some requests only.
    pub fn add_for(&mut self, concern: Concern, phase: Phase, hook: impl Hook + 'static) {
        let hooks = if phase == Phase::QuickHandler { &mut self.quick } else { &mut self.hooks };
        let place = hooks.partition_point(|other| other.phase <= phase);
        hooks.insert(place, Asked { phase, concern, hook: Box::new(hook) });
    }

    /// Appends a log.
    pub fn add_log(&mut self, log: impl LogTransaction + 'static) {
        self.needs_head |= log.needs_head();
        self.logs.push(Box::new(log));
    }

    /// Runs the phases over a request. In each phase hooks are asked in order until one does not decline. A handler that
    /// is `Done` has filled in [`Request::response`]; without one the answer is 404.
    ///
    /// # Errors
    /// The phase in which a hook said [`Outcome::Later`]; [`go_on`](Self::go_on) from there.
    #[inline]
    pub fn answer(&self, request: &mut Request) -> Result<Status, Phase> {
        for Asked { concern, hook, .. } in &self.quick {
            if concern.is_with(request) && hook.run(request) == Outcome::Done {
                return Ok(request.response.status);
            }
        }
        self.run(&self.hooks, request)
    }

    /// The same from a phase on.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub fn go_on(&self, from: Phase, request: &mut Request) -> Result<Status, Phase> {
        let first = self.hooks.partition_point(|asked| asked.phase < from);
        self.run(&self.hooks[first..], request)
    }

    /// Whether a log looks at the heads of answers.
    pub fn needs_head(&self) -> bool {
        self.needs_head
    }

    /// Whether there is any log.
    pub fn has_logs(&self) -> bool {
        !self.logs.is_empty()
    }

    /// Writes an answered request into every log.
    pub fn log_transaction(&self, transaction: &Transaction<'_>) {
        for log in &self.logs {
            log.log(transaction);
        }
    }

    /// Has every log write what is due at `now`. Where lines are kept back still, gives when the next are due: a thread that
    /// goes to wait must call again then.
    pub fn settle_logs(&self, now: Instant) -> Option<Instant> {
        self.logs.iter().filter_map(|log| log.settle(now)).min()
    }

    /// Has every log write all it has. Call it before the process ends.
    pub fn flush_logs(&self) {
        for log in &self.logs {
            log.flush();
        }
    }

    fn run(&self, hooks: &[Asked], request: &mut Request) -> Result<Status, Phase> {
        // The phase that a hook has ended: its other hooks are not asked.
        let mut ended = None;
        for Asked { phase, concern, hook } in hooks {
            if ended == Some(*phase) || !concern.is_with(request) {
                continue;
            }
            match hook.run(request) {
                Outcome::Declined => {}
                Outcome::Done if *phase == Phase::Handler => {
                    self.remember(request);
                    return Ok(request.response.status);
                }
                Outcome::Done => ended = Some(*phase),
                Outcome::Respond(status) => return Ok(status),
                Outcome::Later => return Err(*phase),
            }
        }
        Ok(Status::NOT_FOUND)
    }

    /// Has the quick handlers keep an answer in mind that every plain request of the path would get.
    fn remember(&self, request: &Request) {
        let mut asked = self.hooks.iter().filter(|asked| asked.concern.is_with(request));
        if request.is_plain() && asked.all(|asked| asked.hook.rests_on_path(&request.path)) {
            self.quick.iter().for_each(|asked| asked.hook.remember(request));
        }
    }
}
