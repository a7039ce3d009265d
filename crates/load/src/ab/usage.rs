//! ab's usage text.

use super::beyond;

/// The options, in ab's columns; `name` is what the program is called by.
pub fn usage(name: &str) -> String {
    let beyond: String = beyond::OPTIONS.iter().map(|(option, what)| format!("    {option:<15} {what}\n")).collect();
    format!("Usage: {name} [options] [http[s]://]hostname[:port]/path\n{OPTIONS}{BEYOND}{beyond}")
}

const BEYOND: &str = "Beyond ApacheBench's:\n";

const OPTIONS: &str = "\
Options are:
    -n requests     How many requests to make
    -c concurrency  How many of them at the same time
    -t timelimit    Seconds after which the run ends
                    This implies -n 50000, unless -n follows
    -s timeout      Seconds without any answer after which the run is given up
                    Default is 30 seconds
    -b windowsize   Size of the sockets' send and receive buffers, in bytes
    -B address      Local address to connect from
    -p postfile     File whose contents are sent with POST. See also -T
    -u putfile      File whose contents are sent with PUT. See also -T
    -T content-type Content-type field for POST and PUT, for example
                    'application/x-www-form-urlencoded'
                    Default is 'text/plain'
    -v verbosity    2: show heads; 3: and status codes
    -w              Print the results as HTML tables
    -i              Use HEAD instead of GET
    -x attributes   Attributes of the table elements
    -y attributes   Attributes of the tr elements
    -z attributes   Attributes of the td and th elements
    -C attribute    Send a cookie, for example 'Apache=1234'. (repeatable)
    -H attribute    Send a header line, for example 'Accept-Encoding: gzip'
                    It replaces Host, User-Agent and Accept. (repeatable)
    -A attribute    Send Basic authentication,
                    user name and password with a colon between them.
    -P attribute    Send Basic proxy authentication,
                    user name and password with a colon between them.
    -X proxy:port   Send the requests through this proxy
    -V              Print the version and exit
    -k              Keep connections for further requests (KeepAlive)
    -d              Leave out the table of percentiles.
    -S              Leave out median, deviation and the warnings about them.
    -q              Show no progress with more than 150 requests
    -l              Accept answers of different length (for dynamic pages)
    -g filename     Write every request's times to a file for gnuplot.
    -e filename     Write the percentiles to a CSV file
    -r              Go on after errors on a connection.
    -m method       Use this method
    -h              Print this text
    -I              Send no server name with TLS (SNI)
    -Z ciphersuite  Cipher suites for TLS, by their names, with colons
    -f protocol     Protocol version for TLS: TLS1.2, TLS1.3 or ALL
    -E certfile     Client certificate for TLS, those that vouch for it and
                    its key in one file (PEM)
";
