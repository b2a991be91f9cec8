//! The crate perf-event2 as a contestant; bench/contestants.lua says what is expected of it.
use perf_event::events::Software;
use perf_event::{Builder, Counter, Group};
use std::io::{self, BufRead};
use std::time::Instant;

const FOUR: [Software; 4] = [
    Software::TASK_CLOCK,
    Software::PAGE_FAULTS,
    Software::CONTEXT_SWITCHES,
    Software::CPU_MIGRATIONS,
];

#[inline(never)]
fn nothing() {
    std::hint::black_box(());
}

fn open(event: Software) -> io::Result<Counter> {
    Builder::new(event).include_kernel().build()
}

fn open_group() -> io::Result<(Group, Vec<Counter>)> {
    let mut group = Group::new()?;
    let mut members = Vec::new();
    for event in FOUR {
        members.push(group.add(Builder::new(event).include_kernel())?);
    }
    Ok((group, members))
}

type Run = Box<dyn FnMut(u64)>;

fn measure_event(event: Software) -> io::Result<Run> {
    let mut counter = open(event)?;
    Ok(Box::new(move |n| {
        for _ in 0..n {
            counter.reset().unwrap();
            counter.enable().unwrap();
            nothing();
            counter.disable().unwrap();
            std::hint::black_box(counter.read().unwrap());
        }
    }))
}

fn first(event: Software) -> io::Result<Run> {
    Ok(Box::new(move |n| {
        for _ in 0..n {
            let mut counter = open(event).unwrap();
            counter.enable().unwrap();
            nothing();
            counter.disable().unwrap();
            std::hint::black_box(counter.read().unwrap());
        }
    }))
}

fn measure_group() -> io::Result<Run> {
    let (mut group, _members) = open_group()?;
    Ok(Box::new(move |n| {
        let _ = &_members;
        for _ in 0..n {
            group.reset().unwrap();
            group.enable().unwrap();
            nothing();
            group.disable().unwrap();
            std::hint::black_box(group.read().unwrap());
        }
    }))
}

fn runner(row: &str) -> io::Result<Option<Run>> {
    Ok(Some(match row {
        "measure-event" | "measure-one" => measure_event(Software::TASK_CLOCK)?,
        "measure-faults" => measure_event(Software::PAGE_FAULTS)?,
        "measure-group" | "measure-list" | "measure-default" => measure_group()?,
        "read-event" => {
            let mut counter = open(Software::TASK_CLOCK)?;
            counter.enable()?;
            Box::new(move |n| {
                for _ in 0..n {
                    std::hint::black_box(counter.read().unwrap());
                }
            })
        }
        "read-group" => {
            let (mut group, members) = open_group()?;
            group.enable()?;
            Box::new(move |n| {
                let _ = &members;
                for _ in 0..n {
                    std::hint::black_box(group.read().unwrap());
                }
            })
        }
        "first-event" | "first-list" => first(Software::TASK_CLOCK)?,
        "first-faults" => first(Software::PAGE_FAULTS)?,
        "first-list4" => Box::new(|n| {
            for _ in 0..n {
                let (mut group, _members) = open_group().unwrap();
                group.enable().unwrap();
                nothing();
                group.disable().unwrap();
                std::hint::black_box(group.read().unwrap());
            }
        }),
        _ => return Ok(None),
    }))
}

fn main() {
    let row = std::env::args().nth(1).unwrap_or_default();
    let mut run = match runner(&row) {
        Ok(Some(run)) => run,
        Ok(None) => return println!("none not measured for perf-event2"),
        Err(e) => return println!("none {e}"),
    };
    println!("ready");
    for line in io::stdin().lock().lines() {
        let n: u64 = line.unwrap().trim().parse().unwrap();
        if n == 0 {
            break;
        }
        let start = Instant::now();
        run(n);
        println!("{}", start.elapsed().as_nanos());
    }
}
