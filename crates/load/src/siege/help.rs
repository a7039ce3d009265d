//! Texts of `-h` and `-V`: siege's options, in our own words where siege's are wrong, and ours.

/// What `-h` shows.
pub const HELP: &str = "\
Usage: siege [options]
       siege [options] URL
       siege -g URL
Options:
  -V, --version             VERSION, prints the version number.
  -h, --help                HELP, prints this section.
  -C, --config              CONFIGURATION, show the current config.
  -v, --verbose             VERBOSE, a line for each answer.
  -q, --quiet               QUIET turns verbose off and suppresses output.
  -g, --get                 GET, shows a request and the head of its answer.
                            Great for application debugging.
  -p, --print               PRINT, like GET only it prints the entire page.
  -c, --concurrent=NUM      CONCURRENT users, up to 'limit' in the resource file
  -r, --reps=NUM            REPS, number of times to run the test, or 'once'
                            for once through the list.
  -t, --time=NUMm           TIMED testing where \"m\" is modifier S, M, or H
                            ex: --time=1H, one hour test.
  -d, --delay=NUM           Time DELAY, random delay after each page, between 0
                            and NUM seconds. (NOT COUNTED IN STATS)
  -b, --benchmark           BENCHMARK: no delays between requests.
  -i, --internet            INTERNET user simulation, hits URLs randomly.
  -f, --file=FILE           FILE, select a specific URLS FILE.
  -R, --rc=FILE             RC, specify an siegerc file
  -l, --log[=FILE]          LOG to FILE. If FILE is not specified, the
                            default is used: /var/log/siege.log
  -m, --mark=\"text\"         MARK, mark the log file with a string.
  -H, --header=\"text\"       Add a header to request (can be many)
  -A, --user-agent=\"text\"   Sets User-Agent in request
  -T, --content-type=\"text\" Sets Content-Type in request
  -j, --json-output         JSON OUTPUT, print final stats to stdout as JSON
  -D, --debug               DEBUG, shows all requests and heads of answers
      --no-parser           NO PARSER, turn off the HTML page parser
      --no-follow           NO FOLLOW, do not follow HTTP redirects
Beyond siege:
      --dialect=secs|ms     times as siege 4.0 shows them, or as later ones do
      --stall-timeout=SECS  silence after which an answer has failed (300)
      --fail-on=LIST        conditions that end siege with status 99, as
                            'errors>0,non2xx>1%,p99>50ms,rate<100'

";

/// Which program this is, behind the version.
pub const WHOSE: &str = "\
Written anew for Manifold, with the options, output and exit status of siege.
Not a product of its authors; Apache License 2.0. There is NO warranty.
";
