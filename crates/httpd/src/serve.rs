//! `serve`: a server for one folder, without any configuration.

use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lexopt::{Arg, Parser, ValueExt};
use manifold_engine::site::{ServerName, Site};
use manifold_modules::Settings;
use manifold_modules::file_cache::FileSettings;
use manifold_modules::location::Locations;
use manifold_modules::mime::Types;
use manifold_mpm::generation::{ListenAddress, ListenPlan};
use manifold_mpm::limits::{Model, Occasion, RawLimits, resolve};
use manifold_mpm::listeners::Owner;
use manifold_mpm::parent::Ended;
use manifold_mpm::server::{Operator, Plan, Pulse, Server};
use manifold_sys::privileges::{self, Identity};

use crate::config::reason;
use crate::error_log::{ErrorLog, Levels};
use crate::print;
use crate::service_manager::ServiceManager;
use crate::successor::{Inheritance, Invocation, Ready};

const USAGE: &str = "\
Usage: manifold serve [DIR] [--port N] [--address A] [--mpm X]

Serves the files of DIR (the working directory, if none is named) over HTTP until Ctrl-C.

  -p, --port N     the port to listen on (8080); 0 takes a free one
  -a, --address A  the IP address to listen on (127.0.0.1); 0.0.0.0 is every one
  -M, --mpm X      prefork, worker, event or percore (event)
  -h, --help       this text
";

/// What was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Args {
    folder: PathBuf,
    address: SocketAddr,
    /// The address is the default, because no other was asked for.
    anywhere: bool,
    model: Model,
    help: bool,
}

/// `serve` with the arguments that follow its name.
pub(crate) fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let outcome =
        Args::parse(args).map_err(|error| format!("{error}\n{}", USAGE.trim_end())).and_then(|args| match args.help {
            true => {
                print::say(USAGE);
                Ok(ExitCode::SUCCESS)
            }
            false => serve(&args),
        });
    outcome.unwrap_or_else(|error| {
        print::tell(&format!("manifold serve: {error}\n"));
        ExitCode::FAILURE
    })
}

impl Args {
    fn parse(args: impl Iterator<Item = OsString>) -> Result<Args, String> {
        let mut parser = Parser::from_args(args);
        let (mut folder, mut port, mut ip) = (None, 8080, IpAddr::from(Ipv4Addr::LOCALHOST));
        let mut anywhere = true;
        let (mut model, mut help) = (Model::DEFAULT, false);
        while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
            match arg {
                Arg::Short('p') | Arg::Long("port") => {
                    let text = value(&mut parser)?;
                    anywhere = false;
                    port = text
                        .parse()
                        .map_err(|_| format!("--port: '{text}' is no port; a port is a number up to 65535"))?;
                }
                Arg::Short('a') | Arg::Long("address") => {
                    let text = value(&mut parser)?;
                    anywhere = false;
                    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(&text);
                    ip = bare.parse().map_err(|_| format!("--address: '{text}' is no IP address"))?;
                }
                Arg::Short('M') | Arg::Long("mpm") => {
                    model = value(&mut parser)?.parse().map_err(|error| format!("--mpm: {error}"))?;
                }
                Arg::Short('h') | Arg::Long("help") => help = true,
                Arg::Value(name) if folder.is_none() => folder = Some(PathBuf::from(name)),
                other => return Err(other.unexpected().to_string()),
            }
        }
        let folder = folder.unwrap_or_else(|| PathBuf::from("."));
        Ok(Args { folder, address: SocketAddr::new(ip, port), anywhere, model, help })
    }
}

fn value(parser: &mut Parser) -> Result<String, String> {
    parser.value().and_then(ValueExt::string).map_err(|error| error.to_string())
}

fn serve(args: &Args) -> Result<ExitCode, String> {
    let folder = std::fs::canonicalize(&args.folder).and_then(|folder| std::fs::read_dir(&folder).map(|_| folder));
    let folder = folder.map_err(|error| format!("cannot serve '{}': {}", args.folder.display(), reason(&error)))?;
    let error_log = ErrorLog::standard_error(Levels::default()).map_err(|error| reason(&error))?;
    let inheritance = Inheritance::take()?;
    // A service manager that listens already has chosen the addresses.
    let managed = Some(inheritance.managed()).filter(|managed| args.anywhere && !managed.is_empty());
    let addresses = managed.unwrap_or_else(|| vec![args.address]);
    let folder = Folder {
        model: args.model,
        addresses: addresses.into_iter().map(ListenAddress::At).collect(),
        folder,
        invocation: Invocation::of_this_process(),
        manager: ServiceManager::from_environment(),
        predecessor: inheritance.ready,
    };
    let server = Server::start(folder.plan(), inheritance.sockets).map_err(|error| {
        format!("{error}\n  = help: choose another port with '--port N'; '--port 0' takes a free one")
    })?;
    let addresses = server.addresses();
    error_log.install();
    for what in &inheritance.unfit {
        log::warn!(target: "core", "{what}");
    }
    for address in addresses {
        let path = folder.folder.display();
        print::say(&format!("Serving {path} at http://{address}/ (MPM {}); Ctrl-C stops\n", args.model));
    }
    match server.run(Box::new(folder)).map_err(|error| error.to_string())? {
        Ended::AtOnce | Ended::Gracefully => Ok(ExitCode::SUCCESS),
        Ended::Failed => Ok(ExitCode::FAILURE),
    }
}

/// The operator of a served folder: its configuration is the command line, and cannot change.
struct Folder {
    model: Model,
    addresses: Vec<ListenAddress>,
    folder: PathBuf,
    invocation: Invocation,
    manager: ServiceManager,
    predecessor: Option<Ready>,
}

impl Operator for Folder {
    fn reload(&mut self) -> Result<Plan, String> {
        self.manager.reloading();
        Ok(self.plan())
    }

    fn in_force(&mut self) {
        if let Some(predecessor) = self.predecessor.take() {
            // The service manager listens to the old server until that has named this one.
            predecessor.tell();
        } else {
            self.manager.ready();
        }
    }

    fn refused(&mut self, why: &str) {
        self.manager.refused(why);
    }

    fn stopping(&mut self, within: Option<Duration>) {
        self.manager.stopping(within);
    }

    fn replaced(&mut self, pid: i32) {
        self.manager.replaced(pid);
    }

    fn tick(&mut self, pulse: Pulse) {
        self.manager.tick(Instant::now(), pulse);
    }

    fn beat(&mut self, now: Instant) -> Option<Instant> {
        self.manager.beat(now)
    }

    fn start_successor(
        &mut self,
        sockets: &mut dyn Iterator<Item = (&TcpListener, Owner)>,
        ready: PipeWriter,
    ) -> io::Result<i32> {
        self.invocation.start(sockets, &ready, None)
    }
}

impl Folder {
    fn plan(&self) -> Plan {
        let cores =
            std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
        let (limits, _) = resolve(self.model, &RawLimits::default(), cores, Occasion::Start);
        let phases = manifold_modules::phases(Settings {
            document_root: self.folder.clone(),
            server_name: ServerName::default(),
            directory_index: vec!["index.html".to_owned()],
            types: Types::built_in(),
            files: FileSettings::default(),
            access_logs: Vec::new(),
            status: Arc::default(),
            locations: Locations::default(),
        });
        Plan {
            limits,
            site: Arc::new(Site::new(phases)),
            listen: ListenPlan { addresses: self.addresses.clone(), ..ListenPlan::new() },
            identity: owner(&self.folder),
            core_dump_directory: None,
        }
    }
}

/// Root serves a folder as the user it belongs to. A folder of root's own is served as root, because nobody else may be
/// able to read it.
fn owner(folder: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let uid = std::fs::metadata(folder).ok()?.uid();
    let user = privileges::is_root().then(|| privileges::user(&format!("#{uid}")))??;
    (user.uid != 0).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Args, String> {
        Args::parse(words.split_ascii_whitespace().map(OsString::from))
    }

    #[test]
    fn a_folder_is_all_there_needs_to_be() {
        let check = |words: &str, folder: &str, address: &str, model| {
            let anywhere = !words.contains('-') || words.is_empty();
            let address = address.parse().unwrap();
            let expected = Args { folder: folder.into(), address, anywhere, model, help: false };
            assert_eq!(parse(words), Ok(expected), "{words}");
        };
        check("", ".", "127.0.0.1:8080", Model::Event);
        check("site --port 90 --mpm percore", "site", "127.0.0.1:90", Model::Percore);
        check("-p0 -a ::1 -M worker", ".", "[::1]:0", Model::Worker);
        check("--address=[::] site", "site", "[::]:8080", Model::Event);
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        let check = |words: &str, expected: &str| assert_eq!(parse(words), Err(expected.to_owned()), "{words}");
        check("--port many", "--port: 'many' is no port; a port is a number up to 65535");
        check("--address here", "--address: 'here' is no IP address");
        check("--mpm x", "--mpm: there is no MPM 'x'; choose prefork, worker, event or percore");
        check("a b", "unexpected argument \"b\"");
        check("--frob", "invalid option '--frob'");
    }
}
