//! A device as people write it: a product, a MIG profile of one, or a total.

use thiserror::Error;

use crate::device::MOST;
use crate::device::catalogue::{Catalogue, Product, ProductLabel};
use crate::footprint::{Class, Device};
use crate::message::{cut, is_unprintable};
use crate::policy::nearest;
use crate::units::Mib;

/// Longest name of a product, in bytes.
const LONGEST_NAME: usize = 200;
/// Names that an error lists at most.
const LISTED: usize = 6;

/// A device by name or by total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The product as written, without total and profile; `None` where only a total was.
    pub name: Option<String>,
    /// The product, where the catalogue has it.
    pub product: Option<Product>,
    /// The MIG profile as written.
    pub profile: Option<String>,
    /// Whether the total was written, not looked up.
    pub stated: bool,
    /// What an estimate needs to know of it.
    pub device: Device,
    /// What to tell about how the text was read.
    pub notes: Vec<String>,
}

/// A text that names no device.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "device: {text:?} {problem}; write a product such as h100-80gb-sxm, a profile such as 1g.10gb@a100-80gb, either with \
     =MIB behind it, or a total in MiB such as 81559"
)]
pub struct DeviceError {
    text: String,
    problem: String,
}

impl Named {
    /// Reads `PRODUCT[=MIB]`, `PROFILE@PRODUCT[=MIB]` or `MIB`.
    ///
    /// A product is an id of the catalogue, the value of a node's label `nvidia.com/gpu.product` (with its MIG suffix or
    /// without) or an alias. With a total beside it any name is taken, and the total wins: the name then tells the class
    /// only. A bare total is that of a device of which nothing else is known.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] for a name that is not in the catalogue without a total, for a profile that its product lacks, and
    /// for totals that are none.
    pub fn parse(catalogue: &Catalogue, text: &str) -> Result<Self, DeviceError> {
        let fail = |problem: String| DeviceError {
            text: cut(text, 60),
            problem,
        };
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(fail("is empty".to_owned()));
        }
        if trimmed.len() > LONGEST_NAME {
            return Err(fail(format!("has more than {LONGEST_NAME} bytes")));
        }
        if trimmed.chars().any(is_unprintable) {
            return Err(fail("holds characters that cannot be printed".to_owned()));
        }
        if let Some((name, total)) = trimmed.rsplit_once('=') {
            let total = mib(total).map_err(fail)?;
            let name = name.trim();
            if name.is_empty() {
                return Err(fail("has no product before its total".to_owned()));
            }
            if name.contains('=') {
                return Err(fail("has more than one total".to_owned()));
            }
            whole(name).map_err(fail)?;
            return Ok(with_total(catalogue, name, total));
        }
        if trimmed.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '+'))
            && !trimmed.contains('@')
        {
            return Ok(Self {
                name: None,
                product: None,
                profile: None,
                stated: true,
                device: Device::exactly(mib(trimmed).map_err(fail)?, Class::default()),
                notes: Vec::new(),
            });
        }
        whole(trimmed).map_err(fail)?;
        looked_up(catalogue, trimmed).map_err(fail)
    }

    /// How it is called in text: `1g.10gb of h100-80gb-sxm`, or `a device`.
    #[must_use]
    pub fn title(&self) -> String {
        let name = self
            .product
            .as_ref()
            .map(|product| product.id.as_str())
            .or(self.name.as_deref());
        match (&self.profile, name) {
            (Some(profile), Some(name)) => format!("{profile} of {name}"),
            (None, Some(name)) => name.to_owned(),
            (_, None) => "a device of unknown product".to_owned(),
        }
    }
}

/// The parts of a name: `1g.10gb@a100-80gb`, or the label of a node with MIG instances of one profile.
fn parts(name: &str) -> (Option<&str>, &str) {
    if let Some((profile, product)) = name.split_once('@') {
        return (Some(profile.trim()), product.trim());
    }
    let label = ProductLabel::parse(name);
    match label.mig {
        Some(profile) if profile != "INVALID" => (Some(profile), label.base),
        _ => (None, name),
    }
}

/// Refuses `@` without a profile before it or a product behind it, and a second one.
fn whole(name: &str) -> Result<(), String> {
    let Some((profile, product)) = name.split_once('@') else {
        return Ok(());
    };
    if profile.trim().is_empty() {
        return Err("has no MIG profile before the @".to_owned());
    }
    if product.trim().is_empty() {
        return Err("has no product behind the @".to_owned());
    }
    if product.contains('@') {
        return Err("has more than one @".to_owned());
    }
    Ok(())
}

fn with_total(catalogue: &Catalogue, name: &str, total: Mib) -> Named {
    let (profile, base) = parts(name);
    let product = catalogue.product(base);
    let class = product.map_or_else(
        || Class::of(base, None),
        |product| Class::of(&product.id, Some(&product.architecture)),
    );
    let mut device = Device::exactly(
        total,
        Class {
            mig: class.mig || profile.is_some(),
            ..class
        },
    );
    let mut notes = Vec::new();
    match (product, profile) {
        // This is what the driver tells of the whole GPU, and CUDA shows the engine less.
        (Some(product), None) if product.memory == total || product.other_memory.contains(&total) => {
            device.least_total = product.cuda_total.map_or(total, |cuda| cuda.min(total));
        }
        (Some(product), None) if is_odd(product, total) => notes.push(format!(
            "{} usually has {} MiB; {} MiB are taken as written",
            product.id,
            product.memory.get(),
            total.get()
        )),
        (Some(product), Some(profile)) => match product.profile(profile) {
            None => notes.push(format!(
                "{} has no MIG profile {profile}; {} MiB are taken as written",
                product.id,
                total.get()
            )),
            Some(found) if is_apart(total, found.memory, found.memory) => notes.push(format!(
                "{profile} of {} usually has {} MiB; {} MiB are taken as written",
                product.id,
                found.memory.get(),
                total.get()
            )),
            Some(_) => {}
        },
        (None, _) => notes.push(format!(
            "{base} is not in the catalogue of products; its name tells its class and {} MiB are taken as written",
            total.get()
        )),
        _ => {}
    }
    Named {
        name: Some(base.to_owned()),
        product: product.cloned(),
        profile: profile.map(str::to_owned),
        stated: true,
        device,
        notes,
    }
}

/// Whether a total is more than a tenth away from every total of a product: CUDA, ECC and the driver take less.
fn is_odd(product: &Product, total: Mib) -> bool {
    is_apart(total, product.lowest_memory(), product.highest_memory())
}

/// Whether a total is more than a tenth below the lowest or above the highest that is usual.
fn is_apart(total: Mib, lowest: Mib, highest: Mib) -> bool {
    total.times(10) > highest.times(11) || total.times(10) < lowest.times(9)
}

fn looked_up(catalogue: &Catalogue, name: &str) -> Result<Named, String> {
    let (profile, base) = parts(name);
    let Some(product) = catalogue.product(base) else {
        return Err(format!(
            "is not in the catalogue of products{}",
            near(catalogue, base)
        ));
    };
    let mut device = Device::of_product(product);
    if let Some(name) = profile {
        let Some(found) = product.profile(name) else {
            return Err(no_profile(product, name));
        };
        device = Device::exactly(
            found.memory,
            Class {
                mig: true,
                ..device.class
            },
        );
    }
    let mut notes = Vec::new();
    if name.contains("-MIG-INVALID") {
        notes.push("the profiles of that node differ; the whole GPU is taken".to_owned());
    }
    Ok(Named {
        name: Some(base.to_owned()),
        product: Some(product.clone()),
        profile: profile.map(str::to_owned),
        stated: false,
        device,
        notes,
    })
}

fn no_profile(product: &Product, name: &str) -> String {
    let profiles: Vec<&str> = product
        .mig
        .iter()
        .flat_map(|mig| &mig.profiles)
        .map(|profile| profile.name.as_str())
        .collect();
    let name = cut(name, 30);
    if profiles.is_empty() {
        format!("names a MIG profile, and {} has no MIG", product.id)
    } else {
        format!(
            "names the MIG profile {name:?}, and {} has {}",
            product.id,
            profiles.join(", ")
        )
    }
}

/// Products that a name may stand for: those that hold it, else those that stand within it, else the one that is spelt
/// most like it.
fn near(catalogue: &Catalogue, name: &str) -> String {
    let bare = |text: &str| -> String {
        let letters = text.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    let wanted = bare(name);
    let ids = || catalogue.products().iter().map(|product| product.id.as_str());
    let mut found: Vec<&str> = Vec::new();
    if wanted.len() >= 2 {
        found.extend(ids().filter(|id| bare(id).contains(&wanted)));
        // `a10` stands within `a100`, and is another product.
        if found.is_empty() {
            found.extend(ids().filter(|id| wanted.contains(&bare(id))));
        }
    }
    if found.is_empty() {
        let words: Vec<String> = name
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .map(bare)
            .filter(|word| word.len() >= 2 && word.bytes().any(|byte| byte.is_ascii_digit()))
            .filter(|word| !word.ends_with("gb"))
            .collect();
        found.extend(ids().filter(|id| id.split('-').any(|part| words.iter().any(|word| word == part))));
    }
    if found.is_empty() {
        let known: Vec<&str> = ids().collect();
        found.extend(nearest(name, &known));
    }
    found.truncate(LISTED);
    if found.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", found.join(", "))
    }
}

/// A total in MiB, with the unit or without.
fn mib(text: &str) -> Result<Mib, String> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let digits = lower.strip_suffix("mib").map_or(lower.as_str(), str::trim_end);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let shown = cut(text, 30);
        return Err(format!(
            "has the total {shown:?}, which is no whole number of MiB"
        ));
    }
    match digits.parse::<u64>() {
        Ok(0) => Err("has a total of 0 MiB".to_owned()),
        Ok(total) if total <= MOST.get() => Ok(Mib::new(total)),
        _ => Err(format!(
            "has a total above {} MiB, which no device has",
            MOST.get()
        )),
    }
}

#[cfg(test)]
mod tests;
