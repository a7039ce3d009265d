//! One user: which request comes next, and what an answer means. A state machine without sockets and clocks.
//!
//! A user goes through pages. A page is a chain of requests (redirects, refreshes, challenges of logins) and then one chain for each of
//! its parts, the last one named first, as siege has it. A chain that ends badly has failed once, and none of its answers is a hit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Zoned;
use manifold_stats::Rng;

use super::answer::Answer;
use super::assets::{Asset, assets};
use super::auth::{Login, Unanswerable};
use super::cache::Cache;
use super::cookies::Jar;
use super::report::{Hit, Tally, line};
use super::request::{Personal, render, target};
use super::settings::{Kind, REPETITIONS_MAX, Repetitions, Settings, notice};
use super::urls::{Scheme, Url};
use crate::latencies::Latencies;
use crate::tls::Prepared;

/// A chain is no longer than this; siege follows a redirect to itself for ever.
const CHAIN_MAX: u32 = 50;
/// Parts still to be got of one page, those that parts name included.
const PARTS_MAX: u32 = 1000;

/// What all users share.
#[derive(Debug)]
pub struct Campaign {
    pub settings: Settings,
    /// How connections are secured; a sentence of why they cannot be.
    pub security: Result<Prepared, String>,
    /// Never empty.
    pub urls: Vec<Url>,
    /// Users begin with one of them each, in turn.
    pub logins: Vec<Url>,
    /// What failed so far, of all users.
    pub failed: AtomicU64,
}

impl Campaign {
    /// Whether so much has failed that siege gives up.
    pub fn is_hopeless(&self) -> bool {
        let most = u64::try_from(self.settings.failures).unwrap_or(0);
        most > 0 && self.failed.load(Ordering::Relaxed) >= most
    }
}

/// What a user does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Request(Url),
    /// Nothing, for so long.
    Rest(Duration),
    Done,
}

/// What became of a request.
#[derive(Debug)]
pub enum Fate {
    Answered(Answer),
    /// Something came that is no HTTP.
    Malformed,
    /// Nothing or not all came; lines for people to read.
    Failed(Option<String>),
}

/// What there is to show, and what all answers took.
#[derive(Debug, Default)]
pub struct Output {
    /// For standard output.
    pub out: Vec<u8>,
    /// For standard error.
    pub err: String,
    /// From a request's beginning to its answer's end.
    pub times: Latencies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Login,
    Page,
    Parts,
    Pause,
}

/// A user.
#[derive(Debug)]
pub struct User {
    pub id: usize,
    pub jar: Jar,
    /// What is known of pages, where the settings want it kept.
    cache: Cache,
    pub tally: Tally,
    stage: Stage,
    /// Pages gone through.
    rounds: i64,
    /// The page after this one.
    cursor: usize,
    /// Parts of the page; the last is next.
    parts: Vec<Url>,
    parts_got: u32,
    chain: Chain,
    www: Option<Login>,
    proxy: Option<Login>,
    rng: Rng,
}

/// Requests that follow from each other.
#[derive(Debug, Default)]
struct Chain {
    next: Option<Url>,
    requests: u32,
    answers: u64,
    /// Challenges met: by the server, by a proxy.
    challenges: [i64; 2],
    /// It does not count if it fails.
    is_login: bool,
}

impl User {
    /// A user before the first request.
    pub fn new(id: usize, users: usize, campaign: &Campaign, jar: Jar, seed: u64) -> User {
        let places = campaign.urls.len();
        let once = campaign.settings.repetitions == Repetitions::Once;
        let cursor = if once { 0 } else { id * (places / users.max(1)) };
        User {
            id,
            jar,
            cache: Cache::default(),
            tally: Tally::default(),
            stage: if campaign.logins.is_empty() { Stage::Page } else { Stage::Login },
            rounds: 0,
            cursor,
            parts: Vec::new(),
            parts_got: 0,
            chain: Chain::default(),
            www: None,
            proxy: None,
            rng: Rng::new(seed ^ (id as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        }
    }

    /// What is to be done now.
    pub fn next(&mut self, campaign: &Campaign) -> Next {
        if let Some(url) = self.chain.next.take() {
            return Next::Request(url);
        }
        loop {
            match self.stage {
                Stage::Login => {
                    self.stage = Stage::Page;
                    self.chain = Chain { is_login: true, ..Chain::default() };
                    return Next::Request(campaign.logins[self.id % campaign.logins.len()].clone());
                }
                Stage::Page => {
                    if self.is_through(campaign) {
                        return Next::Done;
                    }
                    self.stage = Stage::Parts;
                    self.chain = Chain::default();
                    self.parts_got = 0;
                    return Next::Request(self.choose(campaign));
                }
                Stage::Parts => match self.parts.pop() {
                    Some(part) if self.parts_got < PARTS_MAX => {
                        if is_wanted(&part, &campaign.settings) {
                            self.parts_got += 1;
                            self.chain = Chain::default();
                            return Next::Request(part);
                        }
                    }
                    _ => {
                        self.parts.clear();
                        self.stage = Stage::Pause;
                    }
                },
                Stage::Pause => {
                    self.stage = Stage::Page;
                    self.rounds += 1;
                    if campaign.is_hopeless() {
                        return Next::Done;
                    }
                    if campaign.settings.delay > 0.0 {
                        return Next::Rest(
                            Duration::from_secs_f64(campaign.settings.delay.min(86_400.0)).mul_f64(self.fraction()),
                        );
                    }
                }
            }
        }
    }

    /// Whether the user has gone round often enough.
    fn is_through(&self, campaign: &Campaign) -> bool {
        match campaign.settings.repetitions {
            Repetitions::Once => self.rounds >= campaign.urls.len() as i64,
            Repetitions::Times(REPETITIONS_MAX | i64::MIN..=0) if campaign.settings.seconds > 0 => false,
            Repetitions::Times(times) => self.rounds >= times,
        }
    }

    /// The next page: by chance, or the next one in the list.
    fn choose(&mut self, campaign: &Campaign) -> Url {
        let places = campaign.urls.len();
        if campaign.settings.internet {
            return campaign.urls[self.rng.below(places)].clone();
        }
        if self.cursor >= places {
            self.cursor = 0;
            if campaign.settings.expire_session {
                self.jar.clear();
            }
        }
        self.cursor += 1;
        campaign.urls[self.cursor - 1].clone()
    }

    /// From 0 to 1.
    fn fraction(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The bytes of a request at `now`, seconds since 1970.
    pub fn render(&mut self, url: &Url, settings: &Settings, now: u64) -> Vec<u8> {
        let target = target(url, settings);
        let value = |login: &mut Option<Login>| login.as_mut().map(|login| login.value(url.method, &target));
        let personal = Personal {
            www: value(&mut self.www),
            proxy: value(&mut self.proxy),
            cookie: self.jar.field(&url.host, now),
            validators: self.cache.of(&url.absolute, now),
        };
        render(url, settings, &personal)
    }

    /// A request is over, after so many nanoseconds.
    pub fn finish(&mut self, url: &Url, fate: Fate, took: u64, campaign: &Campaign, now: &Zoned, output: &mut Output) {
        let answer = match fate {
            Fate::Answered(answer) => answer,
            Fate::Malformed => {
                self.tally.hits += 1;
                self.tally.time += took;
                self.show(url, (418, "HTTP/1.1", 0), took, campaign, now, output);
                return self.fail(campaign);
            }
            Fate::Failed(sentence) => {
                for line in sentence.iter().flat_map(|sentence| sentence.split('\n')) {
                    output.err.push_str(&if line.is_empty() { "\n".to_owned() } else { notice(Kind::Error, line) });
                }
                return self.fail(campaign);
            }
        };
        let settings = &campaign.settings;
        if settings.cookies {
            let seconds = u64::try_from(now.timestamp().as_second()).unwrap_or(0);
            answer.fields("Set-Cookie").for_each(|cookie| self.jar.set(cookie, &url.host, seconds));
        }
        if settings.cache {
            self.cache.remember(&url.absolute, &answer);
        }
        if shows(settings) && !settings.print {
            output.out.extend_from_slice(answer.head());
            // An empty line follows, unless the head says that there is no page.
            if answer.fields("Content-Length").next() != Some("0") {
                output.out.push(b'\n');
            }
        }
        if settings.print {
            output.out.extend_from_slice(&answer.page());
            output.out.push(b'\n');
        }
        let refresh = self.look_through(url, &answer, settings);
        if !settings.zero_ok && answer.bytes == 0 {
            return self.fail(campaign);
        }
        let status = answer.status();
        self.tally.bytes += answer.bytes;
        self.tally.took(took);
        self.tally.good += u64::from(status < 400 || matches!(status, 401 | 407));
        self.tally.okay += u64::from(status == 200);
        self.tally.non2xx += u64::from(!(200..300).contains(&status));
        output.times.record(took);
        self.show(url, (status, answer.version(), answer.bytes), took, campaign, now, output);
        self.chain.answers += 1;
        match self.follow(url, &answer, refresh, settings, output) {
            Ok(next) => {
                self.chain.requests += 1;
                if next.is_some() && self.chain.requests >= CHAIN_MAX {
                    output.err.push_str(&notice(
                        Kind::Error,
                        &format!("more than {CHAIN_MAX} redirects in a row: {}", url.absolute),
                    ));
                    return self.fail(campaign);
                }
                if next.is_none() {
                    self.tally.hits += self.chain.answers;
                }
                self.chain.next = next;
            }
            Err(()) => self.fail(campaign),
        }
    }

    /// Adds the parts that a page names; where it leads by itself.
    fn look_through(&mut self, url: &Url, answer: &Answer, settings: &Settings) -> Option<Url> {
        if !settings.parser || !answer.is_html() || answer.status() >= 300 {
            return None;
        }
        let mut refresh = None;
        for asset in assets(&answer.page()) {
            match asset {
                Asset::Refresh(location) => refresh = Some(url.normalize(&location, settings.escape)),
                Asset::Part(location) => {
                    let part = url.normalize(&location, settings.escape);
                    let known = self.parts.iter().any(|known| known.absolute == part.absolute);
                    if part.host.len() > 1 && !known && self.parts.len() < PARTS_MAX as usize {
                        self.parts.push(part);
                    }
                }
            }
        }
        refresh
    }

    /// What an answer makes the user do in the same chain. `Err`: the chain has ended badly.
    fn follow(
        &mut self,
        url: &Url,
        answer: &Answer,
        refresh: Option<Url>,
        settings: &Settings,
        output: &mut Output,
    ) -> Result<Option<Url>, ()> {
        match answer.status() {
            200 => Ok(refresh),
            301 | 302 | 303 | 307 if settings.follow => {
                let Some(location) = answer.fields("Location").next() else { return Ok(None) };
                let mut next = url.normalize(location, settings.escape);
                if next.host.is_empty() {
                    next.host.clone_from(&url.host);
                }
                if answer.status() == 307 {
                    next.method = url.method;
                    next.body.clone_from(&url.body);
                }
                Ok(Some(next))
            }
            401 => self.log_in(url, answer, settings, output, false),
            407 => self.log_in(url, answer, settings, output, true),
            408 | 500..=509 => Err(()),
            _ => Ok(None),
        }
    }

    /// Answers a challenge of the server or of a proxy, as often as `attempts` allows.
    fn log_in(
        &mut self,
        url: &Url,
        answer: &Answer,
        settings: &Settings,
        output: &mut Output,
        proxy: bool,
    ) -> Result<Option<Url>, ()> {
        let met = &mut self.chain.challenges[usize::from(proxy)];
        *met += 1;
        if *met >= settings.attempts {
            return Ok(None);
        }
        let (field, known) = if proxy {
            ("Proxy-Authenticate", settings.proxy_logins.clone())
        } else {
            ("WWW-Authenticate", url.credentials.iter().chain(&settings.logins).cloned().collect())
        };
        let challenges: Vec<&str> = answer.fields(field).collect();
        // Digest before Basic, where a server offers both.
        let digest = |challenge: &&&str| challenge.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("digest"));
        let challenge = challenges.iter().find(digest).or_else(|| challenges.first()).copied().unwrap_or_default();
        match Login::answer(challenge, &known, &mut self.rng) {
            Ok(login) if proxy => self.proxy = Some(login),
            Ok(login) => self.www = Some(login),
            Err(Unanswerable::NoCredentials { realm, digest: true }) => {
                let (of, what, key) =
                    if proxy { (" a proxy", "HTTP realm", "proxy-login") } else { (" an", "realm", "login") };
                output.err.push_str(&format!(
                    "ERROR: Unable to respond to{of} authorization challenge\n       in the following {what}: '{realm}'\n       Did you set {key} credentials in the conf file?\n"
                ));
                return Err(());
            }
            Err(_) => {}
        }
        Ok(Some(url.clone()))
    }

    /// The chain has ended badly.
    fn fail(&mut self, campaign: &Campaign) {
        if !self.chain.is_login {
            campaign.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn show(&self, url: &Url, of: (u16, &str, u64), took: u64, campaign: &Campaign, now: &Zoned, output: &mut Output) {
        let settings = &campaign.settings;
        if !settings.verbose || settings.get || settings.print || settings.debug {
            return;
        }
        let (status, version, bytes) = of;
        let display = url.display(settings.full_url);
        let hit =
            Hit { user: self.id, version, status, nanoseconds: took, bytes, method: url.method, display, id: url.id };
        output.out.extend_from_slice(line(&hit, settings, &|| now.clone()).as_bytes());
    }
}

/// Shows a request that has been sent, if that is wanted.
pub fn show_request(url: &Url, bytes: &[u8], settings: &Settings, output: &mut Output) {
    if shows(settings) {
        output.out.extend_from_slice(bytes);
        output.out.extend_from_slice(if url.sends_body() { b"\n\n" } else { b"\n" });
    }
}

/// Whether requests and answers are shown.
pub fn shows(settings: &Settings) -> bool {
    (settings.get || settings.print || settings.debug) && !settings.quiet
}

/// Whether a part of a page is to be requested.
fn is_wanted(part: &Url, settings: &Settings) -> bool {
    let host = part.host.to_ascii_lowercase();
    part.scheme != Scheme::Unsupported
        && !settings.no_follow.iter().any(|avoided| host.contains(&avoided.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::super::security;
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text, true, &|_| Ok(Vec::new()), &mut |_| ())
    }

    fn campaign(urls: &[&str], set: &dyn Fn(&mut Settings)) -> Campaign {
        let mut settings = Settings { parser: true, color: false, verbose: true, ..Settings::of_code() };
        set(&mut settings);
        Campaign {
            security: security::prepare(&settings),
            settings,
            urls: urls.iter().map(|text| url(text)).collect(),
            logins: Vec::new(),
            failed: AtomicU64::new(0),
        }
    }

    /// A site: path and the answer to it.
    type Site<'s> = &'s [(&'s str, &'s str)];

    /// Lets a user live in a site; the targets asked for, hits, and failures.
    fn live(campaign: &Campaign, id: usize, users: usize, site: Site<'_>) -> (Vec<String>, u64, u64) {
        let mut user = User::new(id, users, campaign, Jar::default(), 1);
        let (mut asked, mut output) = (Vec::new(), Output::default());
        let now = jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC);
        for _ in 0..500 {
            match user.next(campaign) {
                Next::Done => break,
                Next::Rest(pause) => {
                    asked.push(if pause <= Duration::from_secs(2) {
                        "rest".to_owned()
                    } else {
                        "long rest".to_owned()
                    });
                }
                Next::Request(url) => {
                    let bytes = String::from_utf8(user.render(&url, &campaign.settings, 0)).unwrap();
                    let login = if bytes.contains("Authorization: ") { " with login" } else { "" };
                    asked.push(format!("{} {}{login}", url.method, url.request));
                    let text = site.iter().find(|(path, _)| *path == url.request).map_or("200||", |(_, answer)| answer);
                    let [status, head, body] = text.splitn(3, '|').collect::<Vec<_>>().try_into().unwrap();
                    let status = if login.is_empty() || status != "401" { status } else { "200" };
                    let mut answer = Answer::new(false, true);
                    answer.receive(
                        format!("HTTP/1.1 {status} X\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                            .as_bytes(),
                    );
                    let fate = if status == "none" { Fate::Failed(None) } else { Fate::Answered(answer) };
                    user.finish(&url, fate, 1_000_000, campaign, &now, &mut output);
                }
            }
        }
        (asked, user.tally.hits, campaign.failed.load(Ordering::Relaxed))
    }

    fn check(campaign: &Campaign, site: Site<'_>, asked: &[&str], hits: u64, failed: u64) {
        let got = live(campaign, 0, 1, site);
        assert_eq!(got, (asked.iter().map(|target| (*target).to_owned()).collect(), hits, failed));
    }

    const HTML: &str = "200|Content-Type: text/html|";

    #[test]
    fn lists_are_gone_through_in_order_from_places_apart() {
        let list = ["host/1", "host/2", "host/3", "host/4", "host/5"];
        let times = |times| move |settings: &mut Settings| settings.repetitions = Repetitions::Times(times);
        check(&campaign(&list, &times(2)), &[], &["GET /1", "GET /2"], 2, 0);
        let asked = live(&campaign(&list, &times(4)), 1, 2, &[]).0;
        assert_eq!(asked, ["GET /3", "GET /4", "GET /5", "GET /1"]);
        let once = campaign(&list, &|settings| settings.repetitions = Repetitions::Once);
        assert_eq!(live(&once, 2, 3, &[]).0.len(), 5);
        check(&campaign(&list, &times(0)), &[], &[], 0, 0);
    }

    fn one_page(settings: &mut Settings) {
        settings.repetitions = Repetitions::Times(1);
    }

    #[test]
    fn pages_come_with_their_parts_the_last_first() {
        let page =
            format!("{HTML}<img src=/a.png><script src=/b.js></script><img src=/a.png><img src=http://ads.org/x>");
        let set = |settings: &mut Settings| {
            one_page(settings);
            settings.no_follow = vec!["ads.org".to_owned()];
        };
        check(&campaign(&["host/"], &set), &[("/", &page)], &["GET /", "GET /b.js", "GET /a.png"], 3, 0);
        let without =
            |settings: &mut Settings| (settings.repetitions, settings.parser) = (Repetitions::Times(1), false);
        check(&campaign(&["host/"], &without), &[("/", &page)], &["GET /"], 1, 0);
        let own = format!("{HTML}<img src=/>");
        let asked = live(&campaign(&["host/"], &one_page), 0, 1, &[("/", &own)]).0;
        assert_eq!(
            asked.len(),
            500,
            "a page that is its own part is bounded by PARTS_MAX, beyond what this test looks at"
        );
    }

    #[test]
    fn chains_count_as_a_whole() {
        let here = campaign(&["host/a"], &one_page);
        check(&here, &[("/a", "302|Location: /b|")], &["GET /a", "GET /b"], 2, 0);
        let site: Site<'_> = &[("/a", "302|Location: /b|"), ("/b", "500||")];
        check(&campaign(&["host/a"], &one_page), site, &["GET /a", "GET /b"], 0, 1);
        let posts = campaign(&["host/a POST x"], &one_page);
        check(&posts, &[("/a", "307|Location: /b|")], &["POST /a", "POST /b"], 2, 0);
        let refreshed = format!("{HTML}<meta http-equiv=refresh content=\"0; url=/b\">");
        check(&campaign(&["host/a"], &one_page), &[("/a", &refreshed)], &["GET /a", "GET /b"], 2, 0);
        let (asked, hits, failed) = live(&campaign(&["host/a"], &one_page), 0, 1, &[("/a", "302|Location: /a|")]);
        assert_eq!((asked.len(), hits, failed), (CHAIN_MAX as usize, 0, 1));
    }

    #[test]
    fn logins() {
        let challenge = "401|WWW-Authenticate: Basic realm=\"x\"|";
        let known = |settings: &mut Settings| {
            one_page(settings);
            settings.logins = vec![super::super::auth::Credentials::parse("a:b")];
        };
        check(&campaign(&["host/a"], &known), &[("/a", challenge)], &["GET /a", "GET /a with login"], 2, 0);
        check(
            &campaign(&["http://u:p@host/a"], &one_page),
            &[("/a", challenge)],
            &["GET /a", "GET /a with login"],
            2,
            0,
        );
        let unknown = campaign(&["host/a"], &one_page);
        assert_eq!(live(&unknown, 0, 1, &[("/a", challenge)]).1, 5, "siege asks five times in vain");
        let digest = "401|WWW-Authenticate: Digest realm=\"x\", nonce=\"y\"|";
        check(&campaign(&["host/a"], &one_page), &[("/a", digest)], &["GET /a"], 0, 1);
        let mut first = campaign(&["host/a"], &one_page);
        first.logins = vec![url("host/login POST x"), url("host/login2")];
        check(&first, &[("/login", "500||")], &["POST /login", "GET /a"], 1, 0);
    }

    #[test]
    fn failures_end_the_siege() {
        let set = |settings: &mut Settings| (settings.repetitions, settings.failures) = (Repetitions::Times(10), 3);
        check(&campaign(&["host/a"], &set), &[("/a", "none||")], &["GET /a"; 3], 0, 3);
    }

    #[test]
    fn rests_are_no_longer_than_the_delay() {
        let set = |settings: &mut Settings| (settings.repetitions, settings.delay) = (Repetitions::Times(2), 2.0);
        check(&campaign(&["host/a"], &set), &[], &["GET /a", "rest", "GET /a", "rest"], 2, 0);
    }
}
