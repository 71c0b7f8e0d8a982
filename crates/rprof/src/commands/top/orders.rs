//! [`Orders`] from the screen and the [`Namer`] to the collector.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use rprof_analysis::LiveAnalysis;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Pause(bool),
    /// Reset the counts.
    Zero,
    /// Show the other span.
    Window,
    Write,
    /// Show names found meanwhile.
    Named,
    /// Quit, after this signal if there was one.
    Quit(Option<i32>),
}

#[derive(Debug)]
pub(super) struct Orders {
    sender: Sender<Order>,
    waker: Arc<UnixStream>,
}

impl Clone for Orders {
    fn clone(&self) -> Orders {
        Orders {
            sender: self.sender.clone(),
            waker: Arc::clone(&self.waker),
        }
    }
}

impl Orders {
    pub(super) fn new(sender: Sender<Order>, waker: UnixStream) -> Orders {
        Orders {
            sender,
            waker: Arc::new(waker),
        }
    }

    /// Sends an order. An exited collector needs none.
    pub(super) fn send(&self, order: Order) {
        self.sender.send(order).ok();
        // A full socket wakes the collector too.
        (&*self.waker).write_all(&[0]).ok();
    }
}

/// The thread that looks up names.
pub(super) struct Namer {
    pub(super) analysis: LiveAnalysis,
    pub(super) wanted: Receiver<()>,
    pub(super) orders: Orders,
}

impl Namer {
    /// Looks up names on request, until the collector exits.
    pub(super) fn run(self) {
        while self.wanted.recv().is_ok() {
            self.analysis.look_up();
            self.orders.send(Order::Named);
        }
    }
}
