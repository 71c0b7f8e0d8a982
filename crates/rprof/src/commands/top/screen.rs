//! The full-screen view.

use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

use anyhow::Context;
use rprof_tui::terminal::{End, Inbox};
use rprof_tui::{Effect, InputEvent, terminal};

use super::collector::Collector;
use super::live::{CommandOutput, Live};
use super::orders::{Order, Orders};
use crate::Outcome;
use crate::cli::TopArgs;
use crate::commands::tui::{check_terminal, finish, theme};

pub(super) fn run(args: &TopArgs) -> Outcome {
    check_terminal("top", "--batch prints a table for each interval")?;
    let (wake, waker) = UnixStream::pair().context("cannot make a socket")?;
    for socket in [&wake, &waker] {
        socket
            .set_nonblocking(true)
            .context("cannot make a socket")?;
    }
    let live = Live::begin(args, CommandOutput::Nowhere, &waker)?;
    let inbox = Inbox::new();
    let (sender, receiver) = mpsc::channel();
    let orders = Orders::new(sender, waker);
    let mut collector = Collector::new(args, live, (receiver, wake), inbox.sender());
    let source = collector.source();
    let namer = collector.namer(orders.clone());
    // Not joined at the end: names of a large image take seconds.
    let names = thread::Builder::new().name("names".into());
    let names = names.spawn(move || namer.run());
    let (end, collected) = thread::scope(|scope| {
        let collect = thread::Builder::new().name("collector".into());
        let collect = collect.spawn_scoped(scope, move || collector.run());
        let end = match (&names, &collect) {
            (Ok(_), Ok(_)) => terminal::run(source, theme(args.shown.color), &inbox, |effect| {
                order(&effect, &orders)
            }),
            _ => Err(std::io::Error::other("cannot start a thread")),
        };
        let signal = match &end {
            Ok(End::Signal(signal)) => Some(*signal),
            _ => None,
        };
        orders.send(Order::Quit(signal));
        (end, collect.map(thread::ScopedJoinHandle::join))
    });
    let status = match collected {
        Ok(Ok(status)) => status?,
        // Reported already.
        Ok(Err(_)) => 1,
        Err(error) => return Err(anyhow::Error::new(error).into()),
    };
    match end {
        Ok(End::Quit) => Ok(status),
        end => finish(end),
    }
}

/// Forwards effects that the views do not handle.
fn order(effect: &Effect, orders: &Orders) -> Option<InputEvent> {
    match effect {
        Effect::Pause(is_paused) => orders.send(Order::Pause(*is_paused)),
        Effect::Zero => orders.send(Order::Zero),
        Effect::Window => orders.send(Order::Window),
        Effect::Write => orders.send(Order::Write),
        Effect::Annotate(_) => {
            let text =
                "annotating code needs a recording: `W` writes one, and `rprof annotate` reads it";
            return Some(InputEvent::Message(text.to_owned()));
        }
        _ => {}
    }
    None
}
