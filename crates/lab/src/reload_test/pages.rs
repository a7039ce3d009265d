//! One page for each generation of the server: its content tells which configuration answered.

/// Bytes of the page.
const PAGE_BYTES: usize = 1000;

/// The pages of a test.
#[derive(Debug)]
pub struct Pages {
    bodies: Vec<Vec<u8>>,
}

impl Pages {
    /// Pages of the generations below `generations`.
    pub fn new(generations: usize) -> Pages {
        Pages { bodies: (0..generations).map(page).collect() }
    }

    /// One page, whatever the generation.
    pub fn one(body: Vec<u8>) -> Pages {
        Pages { bodies: vec![body] }
    }

    /// The page of one generation.
    pub fn body(&self, generation: usize) -> Vec<u8> {
        self.bodies[generation].clone()
    }

    /// The generation whose page an answer is; `None` if it is none of them to the last byte.
    pub fn generation(&self, status: u16, body: &[u8]) -> Option<usize> {
        // Only the generations in force, the last ones, come often.
        (status == 200).then(|| self.bodies.iter().rposition(|page| page == body))?
    }
}

fn page(generation: usize) -> Vec<u8> {
    let mut text = format!("<html><body>generation {generation}</body></html>\n");
    while text.len() < PAGE_BYTES {
        text.push((b'a' + ((text.len() + generation) % 26) as u8) as char);
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_its_generation() {
        let pages = Pages::new(30);
        for generation in [0, 7, 29] {
            let body = pages.body(generation);
            assert_eq!(body.len(), PAGE_BYTES);
            assert_eq!(pages.generation(200, &body), Some(generation));
            assert_eq!(pages.generation(503, &body), None);
            assert_eq!(pages.generation(200, &body[1..]), None);
        }
        assert_eq!(pages.generation(200, &page(30)), None);
    }
}
