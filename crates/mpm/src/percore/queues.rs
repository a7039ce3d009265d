//! Who has waited longest: queues of connections out of which any may step at any time, each operation in constant time.

/// Why a connection is in a queue; it is in one at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// It was answered and waits for its next request.
    Kept,
    /// It was accepted and has sent nothing yet.
    Silent,
    /// It was refused and lingers.
    Refused,
}

const NOBODY: u32 = u32::MAX;

/// The neighbours of a connection, and the queue they are in.
#[derive(Clone, Copy, Debug)]
struct Links {
    before: u32,
    after: u32,
    queue: Option<Queue>,
}

const ALONE: Links = Links { before: NOBODY, after: NOBODY, queue: None };

/// The ends of a queue.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
    length: usize,
}

/// All queues, over one table of connections.
#[derive(Debug)]
pub(super) struct Queues {
    links: Vec<Links>,
    ends: [Ends; 3],
}

impl Queues {
    pub(super) fn new() -> Queues {
        Queues { links: Vec::new(), ends: [Ends { first: NOBODY, last: NOBODY, length: 0 }; 3] }
    }

    /// Connections in a queue.
    pub(super) fn length(&self, queue: Queue) -> usize {
        self.ends[queue as usize].length
    }

    /// The one that has waited longest.
    pub(super) fn first(&self, queue: Queue) -> Option<usize> {
        Some(self.ends[queue as usize].first).filter(|first| *first != NOBODY).map(|first| first as usize)
    }

    /// Puts a connection at the end of a queue; it leaves the one it was in.
    pub(super) fn join(&mut self, queue: Queue, index: usize) {
        self.leave(index);
        self.enter(queue, index);
    }

    /// Puts a connection that is in none at the end of a queue.
    #[inline]
    pub(super) fn enter(&mut self, queue: Queue, index: usize) {
        if self.links.len() <= index {
            self.links.resize(index + 1, ALONE);
        }
        debug_assert!(self.links[index].queue.is_none(), "it is in a queue already");
        let ends = &mut self.ends[queue as usize];
        let before = std::mem::replace(&mut ends.last, index as u32);
        ends.length += 1;
        self.links[index] = Links { before, after: NOBODY, queue: Some(queue) };
        match before {
            NOBODY => ends.first = index as u32,
            before => self.links[before as usize].after = index as u32,
        }
    }

    /// Takes a connection out of the queue it is in, if any.
    pub(super) fn leave(&mut self, index: usize) {
        let Some(links) = self.links.get_mut(index) else { return };
        let Links { before, after, queue: Some(queue) } = std::mem::replace(links, ALONE) else { return };
        let ends = &mut self.ends[queue as usize];
        ends.length -= 1;
        match before {
            NOBODY => ends.first = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NOBODY => ends.last = before,
            after => self.links[after as usize].before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn queues_keep_their_order_whoever_steps_out() {
        let all = [Queue::Kept, Queue::Silent, Queue::Refused];
        let mut queues = Queues::new();
        let mut model: [VecDeque<usize>; 3] = Default::default();
        let mut seed = 1u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let index = (seed >> 33) as usize % 50;
            model.iter_mut().for_each(|queue| queue.retain(|other| *other != index));
            match (seed >> 60) as usize % 5 {
                which @ 0..3 => {
                    queues.join(all[which], index);
                    model[which].push_back(index);
                }
                _ => queues.leave(index),
            }
            for (queue, model) in all.iter().zip(&model) {
                assert_eq!((queues.first(*queue), queues.length(*queue)), (model.front().copied(), model.len()));
            }
        }
        // From the front, all come out in the order they came in.
        for (queue, mut model) in all.into_iter().zip(model) {
            while let Some(first) = queues.first(queue) {
                queues.leave(first);
                assert_eq!(model.pop_front(), Some(first));
            }
            assert!(model.is_empty());
        }
    }
}
