//! The targets of an experiment: each server with each combination of settings that meets the conditions.

use std::collections::BTreeMap;

use super::{CELLS_MAX, Subject};
use crate::study::condition;
use crate::study::file::{self, Scalar, Setting};
use crate::target::{Family, Model};

/// Every server with every combination of settings that meets the conditions.
///
/// # Errors
/// A sentence: a server without that model, a name that is no directive, a condition that cannot be read, or nothing left.
pub fn resolve_target(target: &file::Target) -> Result<Vec<Subject>, String> {
    let mut subjects = Vec::new();
    for settings in combinations(&target.settings)? {
        let numbers: BTreeMap<String, i64> = settings
            .iter()
            .filter_map(|(name, value, _)| match value {
                Scalar::Number(number) => Some((name.clone(), *number)),
                Scalar::Text(text) => Some((name.clone(), text.parse().ok()?)),
            })
            .collect();
        let mut holds = true;
        for condition in &target.conditions {
            holds &= condition::holds(condition, &numbers)?;
        }
        if !holds {
            continue;
        }
        let varied = settings.iter().filter(|(.., varies)| *varies);
        let suffix: String = varied.map(|(name, value, _)| format!(" {name}={}", text_of(value))).collect();
        let settings: Vec<(String, String)> =
            settings.into_iter().map(|(name, value, _)| (name, text_of(&value))).collect();
        for &server in &target.servers {
            let model = model_of(server, target.mpm)?;
            let name = format!("{}{suffix}", target.name);
            subjects.push(Subject { name, server, model, settings: settings.clone() });
        }
    }
    if subjects.is_empty() {
        return Err(format!("no combination of the settings of \"{}\" meets its conditions", target.name));
    }
    Ok(subjects)
}

fn model_of(server: Family, mpm: Option<Model>) -> Result<Model, String> {
    match (server, mpm) {
        (Family::Nginx, None) => Ok(Model::Loop),
        (Family::Nginx, Some(_)) => Err("nginx has no models; leave mpm out".to_owned()),
        (Family::Apache2, Some(Model::Percore)) => {
            Err("apache2 has no percore; write servers = [\"manifold\"]".to_owned())
        }
        (Family::Manifold | Family::Apache2, Some(model)) => Ok(model),
        (Family::Manifold | Family::Apache2, None) => {
            Err("which model? write mpm = \"event\", for instance".to_owned())
        }
        (Family::Peer, _) => Err("servers of experiment files are manifold, apache2 and nginx".to_owned()),
    }
}

/// A directive, one value of it, and whether it has others.
type OneSetting = (String, Scalar, bool);

fn combinations(settings: &BTreeMap<String, Setting>) -> Result<Vec<Vec<OneSetting>>, String> {
    let mut all: Vec<Vec<OneSetting>> = vec![Vec::new()];
    for (name, setting) in settings {
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!("settings: {name} is no directive"));
        }
        let (values, varies) = match setting {
            Setting::One(value) => (std::slice::from_ref(value), false),
            Setting::Many(values) => (values.as_slice(), true),
        };
        for value in values {
            if matches!(value, Scalar::Text(text) if text.contains(['\n', '\r', '\0'])) {
                return Err(format!("settings: {name}: a value is one line"));
            }
        }
        let with = |value: &Scalar| (name.clone(), value.clone(), varies);
        all = all
            .iter()
            .flat_map(|done| values.iter().map(move |value| [done.clone(), vec![with(value)]].concat()))
            .collect();
        if all.len() > CELLS_MAX {
            return Err(format!("settings have more than {CELLS_MAX} combinations"));
        }
    }
    Ok(all)
}

fn text_of(value: &Scalar) -> String {
    match value {
        Scalar::Number(number) => number.to_string(),
        Scalar::Text(text) => text.clone(),
    }
}
