//! The ring over socket pairs. Where io_uring is not permitted the tests say so and pass.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use super::*;

const OPTIONS: Options = Options { submissions: 8, completions: 64, buffers: 4, buffer_size: 16 };

fn ring(options: &Options) -> Option<Ring> {
    match Ring::new(options) {
        Ok(ring) => Some(ring),
        Err(error) => {
            eprintln!("skipped: io_uring not permitted ({error})");
            None
        }
    }
}

/// A non-blocking end owned by the ring, and the peer's.
fn pair(ring: &mut Ring) -> (Handle, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (ring.adopt(ours.into()), theirs)
}

/// An event that owns its bytes.
#[derive(Debug, PartialEq)]
enum Seen {
    Accepted(Handle),
    Received(Handle, Vec<u8>, bool),
    ReceiveFailed(Handle, Option<i32>),
    Sent(Handle, Option<i32>),
    Blocked(Handle),
    Ready(Handle, bool),
    Closed(Handle),
}

/// The next event, waited for. Every event these tests wait for is sure to come: a hang is the failure.
fn next(ring: &mut Ring) -> Seen {
    loop {
        if let Some(event) = ring.next_event() {
            return match event {
                Event::Accepted { connection, .. } => Seen::Accepted(connection.unwrap()),
                Event::Received { handle, data: Ok(data), more } => Seen::Received(handle, data.to_vec(), more),
                Event::Received { handle, data: Err(error), .. } => Seen::ReceiveFailed(handle, error.raw_os_error()),
                Event::Sent { handle, result } => Seen::Sent(handle, result.err().and_then(|e| e.raw_os_error())),
                Event::Blocked { handle } => Seen::Blocked(handle),
                Event::Ready { handle, more, .. } => Seen::Ready(handle, more),
                Event::Closed { handle } => Seen::Closed(handle),
            };
        }
        ring.wait(None).unwrap();
    }
}

/// Collects bytes received on `handle` until `len` have come.
fn collect(ring: &mut Ring, handle: Handle, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        match next(ring) {
            Seen::Received(from, data, _) if from == handle => all.extend_from_slice(&data),
            other => panic!("unexpected {other:?}"),
        }
    }
    all
}

/// Reads all of `sent`, which is more than the socket takes at a time, while the ring goes on sending it.
fn assert_carried_through(ring: &mut Ring, handle: Handle, peer: &mut UnixStream, sent: &[u8]) {
    let mut got = Vec::new();
    let mut chunk = vec![0; 100_000];
    while got.len() < sent.len() {
        ring.wait(Some(Duration::ZERO)).unwrap();
        let read = peer.read(&mut chunk).unwrap();
        got.extend_from_slice(&chunk[..read]);
    }
    assert_eq!(next(ring), Seen::Sent(handle, None));
    assert!(got == sent, "the bytes differ");
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

#[test]
fn what_is_sent_arrives_and_its_buffer_is_used_again() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let (handle, mut peer) = pair(&mut ring);
    let bytes = b"hello".to_vec();
    let memory = bytes.as_ptr();
    ring.send(handle, bytes, false);
    assert_eq!(next(&mut ring), Seen::Sent(handle, None));
    let mut got = [0; 5];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"hello");
    let spare = ring.spare();
    assert_eq!(spare.as_ptr(), memory);
}

#[test]
fn a_receive_waits_for_bytes_on_a_non_blocking_socket() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let (handle, mut peer) = pair(&mut ring);
    ring.receive(handle, Shots::One);
    ring.wait(Some(Duration::ZERO)).unwrap();
    assert!(ring.next_event().is_none(), "nothing was sent yet");
    peer.write_all(b"late").unwrap();
    assert_eq!(next(&mut ring), Seen::Received(handle, b"late".to_vec(), false));
    assert!(!ring.is_receiving(handle));
}

#[test]
fn a_multishot_receive_crosses_buffers_and_ends_with_the_stream() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let (handle, mut peer) = pair(&mut ring);
    ring.receive(handle, Shots::Many);
    for round in 1..10 {
        let sent = pattern(7 * round);
        peer.write_all(&sent).unwrap();
        assert_eq!(collect(&mut ring, handle, sent.len()), sent);
    }
    drop(peer);
    assert_eq!(next(&mut ring), Seen::Received(handle, Vec::new(), false));
}

#[test]
fn a_receive_that_found_no_buffer_goes_on_when_one_is_back() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let pairs: Vec<_> = (0..20).map(|_| pair(&mut ring)).collect();
    for (index, (handle, peer)) in pairs.iter().enumerate() {
        let mut peer = peer;
        peer.write_all(&pattern(40 + index)).unwrap();
        ring.receive(*handle, Shots::Many);
    }
    let mut got = vec![Vec::new(); pairs.len()];
    let total: usize = (0..pairs.len()).map(|index| 40 + index).sum();
    while got.iter().map(Vec::len).sum::<usize>() < total {
        match next(&mut ring) {
            Seen::Received(handle, data, _) => got[handle.index()].extend_from_slice(&data),
            other => panic!("unexpected {other:?}"),
        }
    }
    for (index, (handle, _)) in pairs.iter().enumerate() {
        assert_eq!(got[handle.index()], pattern(40 + index));
    }
}

#[test]
fn a_stopped_receive_says_so_and_can_be_started_again() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let (handle, mut peer) = pair(&mut ring);
    for shots in [Shots::One, Shots::Many] {
        ring.receive(handle, shots);
        ring.wait(Some(Duration::ZERO)).unwrap();
        ring.stop_receiving(handle);
        assert_eq!(next(&mut ring), Seen::ReceiveFailed(handle, Some(libc::ECANCELED)));
    }
    ring.receive(handle, Shots::One);
    peer.write_all(b"again").unwrap();
    assert_eq!(next(&mut ring), Seen::Received(handle, b"again".to_vec(), false));
}

#[test]
fn what_is_sent_at_once_arrives_without_an_event() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let (handle, mut peer) = pair(&mut ring);
    let mut got = [0; 5];
    for _ in 0..100 {
        let bytes = b"hello".to_vec();
        let memory = bytes.as_ptr();
        ring.send_at_once(handle, bytes).unwrap();
        assert!(ring.is_unsubmitted(handle));
        ring.wait(Some(Duration::ZERO)).unwrap();
        assert!(!ring.is_unsubmitted(handle));
        assert!(ring.next_event().is_none());
        peer.read_exact(&mut got).unwrap();
        let spare = ring.spare();
        assert_eq!((&got, spare.as_ptr()), (b"hello", memory));
    }
    assert!(!ring.is_any_under_way());
}

#[test]
fn what_is_sent_at_once_and_is_too_much_follows_in_order() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let (handle, mut peer) = pair(&mut ring);
    let sent = pattern(4_000_000);
    ring.send_at_once(handle, sent.clone()).unwrap();
    assert_eq!(next(&mut ring), Seen::Blocked(handle));
    assert_carried_through(&mut ring, handle, &mut peer, &sent);
    // The socket is full again: not a byte of the second goes out, and the error of a peer that is gone is told.
    ring.send_at_once(handle, sent.clone()).unwrap();
    assert_eq!(next(&mut ring), Seen::Blocked(handle));
    drop(peer);
    assert_eq!(next(&mut ring), Seen::Sent(handle, Some(libc::EPIPE)));
    ring.send_at_once(handle, sent).unwrap();
    assert_eq!(next(&mut ring), Seen::Sent(handle, Some(libc::EPIPE)));
}

#[test]
fn what_is_sent_at_once_leaves_before_its_socket_is_closed() {
    for submitted in [false, true] {
        let Some(mut ring) = ring(&OPTIONS) else { return };
        let (handle, mut peer) = pair(&mut ring);
        ring.send_at_once(handle, b"last words".to_vec()).unwrap();
        if submitted {
            ring.wait(Some(Duration::ZERO)).unwrap();
        }
        let gone = ring.close(handle);
        assert_eq!(gone, submitted);
        if !gone {
            assert_eq!(next(&mut ring), Seen::Closed(handle));
        }
        ring.wait(Some(Duration::ZERO)).unwrap();
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"last words");
    }
}

#[test]
fn failures_are_told_before_anything_later_however_few_fit() {
    const FEW: Options = Options { submissions: 64, completions: 1, buffers: 512, buffer_size: 16 };
    let Some(mut ring) = ring(&FEW) else { return };
    let mut pairs: Vec<_> = (0..40).map(|_| pair(&mut ring)).collect();
    pairs.iter().for_each(|(handle, _)| ring.receive(*handle, Shots::Many));
    ring.wait(Some(Duration::ZERO)).unwrap();
    pairs.iter_mut().for_each(|(_, peer)| peer.write_all(&pattern(200)).unwrap());
    // In the moment in which half of the sends fail, all receives have something to tell: far more than fits.
    for (index, (handle, _)) in pairs.iter().enumerate() {
        let bytes = if index % 2 == 0 { pattern(4_000_000) } else { b"answer".to_vec() };
        assert!(ring.send_at_once(*handle, bytes).is_ok());
    }
    let (mut blocked, mut received) = (Vec::new(), 0);
    while received < 200 * pairs.len() {
        match next(&mut ring) {
            Seen::Blocked(handle) => blocked.push(handle),
            Seen::Received(handle, data, more) => {
                received += data.len();
                assert!(handle.index() % 2 == 1 || blocked.contains(&handle), "{handle:?} was not told to be blocked");
                if !more {
                    ring.receive(handle, Shots::Many);
                }
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    assert_eq!(blocked.len(), 20);
}

#[test]
fn buffers_are_put_to_use_as_they_are_needed() {
    const MANY: Options = Options { submissions: 64, completions: 64, buffers: 256, buffer_size: 16 };
    let Some(mut ring) = ring(&MANY) else { return };
    let mut pairs: Vec<_> = (0..50).map(|_| pair(&mut ring)).collect();
    pairs.iter().for_each(|(handle, _)| ring.receive(*handle, Shots::Many));
    for _ in 0..4 {
        // One after the other, few are enough.
        for (handle, peer) in &mut pairs {
            peer.write_all(b"alone").unwrap();
            assert_eq!(collect(&mut ring, *handle, 5), b"alone");
        }
    }
    assert_eq!(ring.buffers.used(), 16);
    pairs.iter_mut().for_each(|(_, peer)| peer.write_all(b"together").unwrap());
    let mut received = 0;
    while received < pairs.len() {
        let seen = next(&mut ring);
        assert!(matches!(&seen, Seen::Received(_, data, true) if data == b"together"), "{seen:?}");
        received += 1;
    }
    assert!((32..256).contains(&ring.buffers.used()), "{} buffers are in use", ring.buffers.used());
}

#[test]
fn a_send_larger_than_the_socket_takes_is_carried_through() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let (handle, mut peer) = pair(&mut ring);
    let sent = pattern(4_000_000);
    ring.send(handle, sent.clone(), false);
    assert_carried_through(&mut ring, handle, &mut peer, &sent);
}

#[test]
fn a_stopped_send_gives_its_memory_back_only_then() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let (handle, _peer) = pair(&mut ring);
    ring.send(handle, pattern(4_000_000), false);
    ring.wait(Some(Duration::ZERO)).unwrap();
    assert!(ring.next_event().is_none());
    ring.stop_sending(handle);
    assert_eq!(next(&mut ring), Seen::Sent(handle, Some(libc::ECANCELED)));
}

#[test]
fn a_vanished_peer_is_an_error_and_no_signal() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let (handle, peer) = pair(&mut ring);
    drop(peer);
    ring.send(handle, b"anyone?".to_vec(), false);
    assert_eq!(next(&mut ring), Seen::Sent(handle, Some(libc::EPIPE)));
}

#[test]
fn closing_ends_what_waits_and_frees_the_number_afterwards() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let (handle, mut peer) = pair(&mut ring);
    ring.receive(handle, Shots::Many);
    ring.wait(Some(Duration::ZERO)).unwrap();
    assert!(!ring.close(handle), "a receive was under way");
    assert_ne!(pair(&mut ring).0, handle, "the number is still in use");
    assert_eq!(next(&mut ring), Seen::Closed(handle));
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0, "the peer sees the end");
    assert_eq!(pair(&mut ring).0, handle);
}

#[test]
fn an_idle_handle_is_closed_at_once() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let (handle, mut peer) = pair(&mut ring);
    assert!(ring.close(handle));
    ring.wait(Some(Duration::ZERO)).unwrap();
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn closing_lets_a_send_finish() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let (handle, mut peer) = pair(&mut ring);
    ring.send(handle, b"last words".to_vec(), false);
    assert!(!ring.close(handle));
    assert_eq!(next(&mut ring), Seen::Closed(handle));
    let mut got = Vec::new();
    peer.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"last words");
}

#[test]
fn a_listener_delivers_many_connections_and_can_be_stopped() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listening = ring.adopt(listener.into());
    ring.accept(listening);
    let clients: Vec<TcpStream> = (0..30).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut accepted = Vec::new();
    while accepted.len() < clients.len() {
        match next(&mut ring) {
            Seen::Accepted(handle) => accepted.push(handle),
            other => panic!("unexpected {other:?}"),
        }
    }
    // More operations at once than the submission queue has room for.
    for handle in &accepted {
        ring.receive(*handle, Shots::One);
        ring.send(*handle, b"welcome".to_vec(), false);
    }
    for mut client in &clients {
        client.write_all(b"hi").unwrap();
    }
    let (mut sent, mut received) = (0, 0);
    while sent < clients.len() || received < clients.len() {
        match next(&mut ring) {
            Seen::Sent(_, None) => sent += 1,
            Seen::Received(_, data, false) => {
                assert_eq!(data, b"hi");
                received += 1;
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    ring.stop_accepting(listening);
    loop {
        ring.wait(None).unwrap();
        if let Some(Event::Accepted { connection, more, .. }) = ring.next_event() {
            assert_eq!(connection.unwrap_err().raw_os_error(), Some(libc::ECANCELED));
            assert!(!more);
            break;
        }
    }
    assert!(ring.close(listening));
}

#[test]
fn readiness_is_told_once_for_writing_and_often_for_reading() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let (handle, mut peer) = pair(&mut ring);
    ring.poll(handle, Readiness::Writable);
    assert_eq!(next(&mut ring), Seen::Ready(handle, false));
    ring.poll(handle, Readiness::Readable);
    for byte in [b"a", b"b"] {
        peer.write_all(byte).unwrap();
        assert_eq!(next(&mut ring), Seen::Ready(handle, true));
        nix::unistd::read(ring.descriptor(handle), &mut [0; 8]).unwrap();
    }
}

#[test]
fn a_ring_dropped_with_operations_under_way_lets_go_of_everything() {
    let bytes = pattern(1_000_000);
    for _ in 0..20 {
        let Some(mut ring) = ring(&OPTIONS) else { return };
        let mut peers = Vec::new();
        for index in 0..30 {
            let (handle, peer) = pair(&mut ring);
            ring.receive(handle, if index % 2 == 0 { Shots::Many } else { Shots::One });
            ring.send(handle, bytes.clone(), false);
            ring.poll(handle, Readiness::Writable);
            if index % 3 == 0 {
                ring.close(handle);
            }
            peers.push(peer);
        }
        ring.wait(Some(Duration::ZERO)).unwrap();
        let (unsubmitted, peer) = pair(&mut ring);
        ring.send(unsubmitted, bytes.clone(), false);
        peers.push(peer);
        drop(ring);
        for mut peer in peers {
            // Reads to the end: the ring's side is closed, in whatever order its operations ended.
            let _reset_is_an_end_too = peer.read_to_end(&mut Vec::new());
        }
    }
}

#[test]
#[should_panic(expected = "the handle names an open descriptor")]
fn a_closed_handle_is_refused() {
    let Some(mut ring) = ring(&OPTIONS) else { panic!("the handle names an open descriptor") };
    let (handle, _peer) = pair(&mut ring);
    ring.close(handle);
    ring.receive(handle, Shots::One);
}

#[test]
fn a_receive_stopped_while_buffers_are_short_does_not_look_broken() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let pairs: Vec<_> = (0..20).map(|_| pair(&mut ring)).collect();
    for (handle, peer) in &pairs {
        let mut peer = peer;
        peer.write_all(&pattern(100)).unwrap();
        ring.receive(*handle, Shots::Many);
    }
    ring.wait(None).unwrap();
    for (handle, _) in &pairs {
        ring.stop_receiving(*handle);
    }
    let mut receiving = pairs.len();
    while receiving > 0 {
        match next(&mut ring) {
            Seen::Received(_, _, more) => receiving -= usize::from(!more),
            Seen::ReceiveFailed(_, Some(libc::ECANCELED)) => receiving -= 1,
            other => panic!("unexpected {other:?}"),
        }
    }
}

#[test]
fn receives_that_found_no_buffer_take_turns() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let pairs: Vec<_> = (0..20).map(|_| pair(&mut ring)).collect();
    for (handle, peer) in &pairs {
        let mut peer = peer;
        peer.write_all(b"x").unwrap();
        ring.receive(*handle, Shots::One);
    }
    for (handle, _) in &pairs {
        assert_eq!(next(&mut ring), Seen::Received(*handle, b"x".to_vec(), false));
    }
}

#[test]
fn a_receive_that_found_no_buffer_does_not_hold_up_a_close() {
    let Some(mut ring) = ring(&OPTIONS) else { return };
    let pairs: Vec<_> = (0..20).map(|_| pair(&mut ring)).collect();
    for (handle, peer) in &pairs {
        let mut peer = peer;
        peer.write_all(&pattern(10)).unwrap();
        ring.receive(*handle, Shots::One);
    }
    ring.wait(None).unwrap();
    // Four found a buffer; the last one is closed at a time when it is with nobody.
    assert_eq!(next(&mut ring), Seen::Received(pairs[0].0, pattern(10), false));
    while ring.next_event().is_some() {}
    let (last, mut peer) = (pairs[19].0, &pairs[19].1);
    assert!(ring.close(last), "nothing is under way");
    ring.wait(Some(Duration::ZERO)).unwrap();
    assert_eq!(peer.read(&mut [0; 1]).unwrap_or(0), 0, "the peer sees the end");
    let (again, mut peer) = pair(&mut ring);
    assert_eq!(again, last);
    ring.receive(again, Shots::Many);
    peer.write_all(b"new").unwrap();
    while next(&mut ring) != Seen::Received(again, b"new".to_vec(), true) {}
}
