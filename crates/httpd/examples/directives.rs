//! Prints the manual's table of directives, made from their declarations; `cargo xtask docs` keeps it in the book.

#![forbid(unsafe_code)]

fn main() {
    print!("{}", manifold_httpd::directives_markdown());
}
