//! What all pages of the laboratory share: styles, the script of plots, and in `lab view` the line that leads around.

/// The styles of every page.
pub const STYLE: &str = concat!(include_str!("../templates/plot.css"), include_str!("../templates/style.css"));
/// Colours, and how plots are drawn with them.
pub const PLOT_STYLE: &str = include_str!("../templates/plot.css");
/// The script of every page: values of plots under pointer and keyboard, zoom. Pages are complete without it.
pub const SCRIPT: &str = include_str!("../templates/plot.js");

/// Where a page is shown.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// What leads elsewhere; none in a file.
    pub links: Vec<Link>,
}

/// A place to go to.
#[derive(Clone, Debug)]
pub struct Link {
    /// A path on the same server.
    pub href: String,
    /// A few words.
    pub text: String,
}

impl Frame {
    /// A page that is a file by itself.
    pub const FILE: Frame = Frame { links: Vec::new() };
}
