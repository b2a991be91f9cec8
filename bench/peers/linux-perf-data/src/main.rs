//! The crate linux-perf-data as a contestant; bench/contestants.lua says what is expected of it.
//! The file is the one that mk/bench.mk recorded: $BUILD/bench/samples.data.
use linux_perf_data::linux_perf_event_reader::EventRecord;
use linux_perf_data::{PerfFileReader, PerfFileRecord};
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::time::Instant;

/// The sum of four fields of each sample, and how many there are.
fn decode(path: &str) -> Result<(u64, u64), Box<dyn Error>> {
    let file = BufReader::new(File::open(path)?);
    let PerfFileReader {
        mut perf_file,
        mut record_iter,
    } = PerfFileReader::parse_file(file)?;
    let (mut sum, mut samples) = (0u64, 0);
    while let Some(record) = record_iter.next_record(&mut perf_file)? {
        if let PerfFileRecord::EventRecord { record, .. } = record {
            if let EventRecord::Sample(s) = record.parse()? {
                sum = sum
                    .wrapping_add(s.ip.unwrap_or(0))
                    .wrapping_add(s.tid.unwrap_or(0) as u64)
                    .wrapping_add(s.timestamp.unwrap_or(0))
                    .wrapping_add(s.addr.unwrap_or(0));
                samples += 1;
            }
        }
    }
    Ok((sum, samples))
}

fn main() {
    let row = std::env::args().nth(1).unwrap_or_default();
    let build = std::env::var("BUILD").unwrap_or_else(|_| "build".to_string());
    let path = format!("{build}/bench/samples.data");
    if !row.starts_with("data") {
        println!("none not measured for this crate");
        return;
    }
    match decode(&path) {
        Ok((_, samples)) if samples > 0 => println!("ready"),
        Ok(_) => return println!("none no sample is found"),
        Err(why) => return println!("none {why}"),
    }
    for line in io::stdin().lock().lines() {
        let n: u64 = line.unwrap().trim().parse().unwrap();
        if n == 0 {
            break;
        }
        let start = Instant::now();
        let (sum, samples) = decode(&path).unwrap();
        std::hint::black_box(sum);
        println!("{}", start.elapsed().as_nanos() as u64 * n / samples);
    }
}
