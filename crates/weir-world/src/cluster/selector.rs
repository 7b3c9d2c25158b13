//! Which objects does a label or field selector pick?

use serde_json::Value;

use super::fields;

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

/// One requirement on a field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    pointer: String,
    value: String,
    wanted: bool,
}

/// Label and field requirements, all of which must hold. Empty picks everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

impl Selector {
    /// Parses the query parameters `labelSelector` and `fieldSelector`.
    ///
    /// # Errors
    /// Says which part could not be read.
    pub fn parse(labels: &str, fields: &str) -> Result<Selector, String> {
        let mut selector = Selector::default();
        for part in split_outside_brackets(labels) {
            selector.labels.push(parse_label(part.trim())?);
        }
        for part in fields.split(',').filter(|part| !part.trim().is_empty()) {
            selector.fields.push(parse_field(part.trim())?);
        }
        Ok(selector)
    }

    /// Reads a `LabelSelector` object (`matchLabels`, `matchExpressions`).
    ///
    /// `None` when it is empty or absent: what that means differs between kinds.
    pub fn from_object(selector: &Value) -> Option<Selector> {
        let mut labels = Vec::new();
        if let Some(map) = selector.get("matchLabels").and_then(Value::as_object) {
            for (key, value) in map {
                let value = value.as_str().unwrap_or("").to_owned();
                labels.push(Requirement::In(key.clone(), vec![value]));
            }
        }
        for expression in fields::list(selector, "/matchExpressions") {
            let key = fields::text(expression, "/key").to_owned();
            let values = fields::list(expression, "/values");
            let values = values
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            labels.push(match fields::text(expression, "/operator") {
                "In" => Requirement::In(key, values),
                "NotIn" => Requirement::NotIn(key, values),
                "Exists" => Requirement::Exists(key),
                _ => Requirement::Absent(key),
            });
        }
        (!labels.is_empty()).then(|| Selector {
            labels,
            fields: Vec::new(),
        })
    }

    /// Returns whether the object is picked.
    pub fn matches(&self, object: &Value) -> bool {
        self.labels
            .iter()
            .all(|requirement| label_holds(requirement, object))
            && self
                .fields
                .iter()
                .all(|field| (field_text(object, &field.pointer) == field.value) == field.wanted)
    }
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let parts = text.split(move |letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.filter(|part| !part.trim().is_empty()).collect()
}

fn parse_label(part: &str) -> Result<Requirement, String> {
    for (word, is_in) in [(" notin ", false), (" in ", true)] {
        if let Some((key, values)) = part.split_once(word) {
            let values = values.trim();
            let values = values
                .strip_prefix('(')
                .and_then(|rest| rest.strip_suffix(')'))
                .ok_or_else(|| format!("unable to parse requirement: {part}"))?;
            let values = values
                .split(',')
                .map(|value| value.trim().to_owned())
                .collect();
            let key = key.trim().to_owned();
            return Ok(match is_in {
                true => Requirement::In(key, values),
                false => Requirement::NotIn(key, values),
            });
        }
    }
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(key.trim().to_owned(), one(value)));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::In(key.trim().to_owned(), one(value)));
    }
    Ok(match part.strip_prefix('!') {
        Some(key) => Requirement::Absent(key.trim().to_owned()),
        None => Requirement::Exists(part.to_owned()),
    })
}

/// The fields that real API servers let a client select by, for the kinds served here.
const SELECTABLE: [&str; 12] = [
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "spec.unschedulable",
    "spec.schedulerName",
    "status.phase",
    "type",
    "reason",
    "involvedObject.kind",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.uid",
];

fn parse_field(part: &str) -> Result<FieldRequirement, String> {
    let (path, value, wanted) = if let Some((path, value)) = part.split_once("!=") {
        (path, value, false)
    } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (path, value, true)
    } else {
        return Err(format!(
            "invalid selector: '{part}'; can't understand '{part}'"
        ));
    };
    if !SELECTABLE.contains(&path) {
        return Err(format!("field label not supported: {path}"));
    }
    let pointer = format!("/{}", path.replace('.', "/"));
    Ok(FieldRequirement {
        pointer,
        value: value.to_owned(),
        wanted,
    })
}

fn label_holds(requirement: &Requirement, object: &Value) -> bool {
    let labels = fields::at(object, "/metadata/labels");
    let value = |key: &str| labels.and_then(|all| all.get(key)).and_then(Value::as_str);
    match requirement {
        Requirement::In(key, values) => {
            value(key).is_some_and(|value| values.iter().any(|one| one == value))
        }
        Requirement::NotIn(key, values) => {
            value(key).is_none_or(|value| values.iter().all(|one| one != value))
        }
        Requirement::Exists(key) => value(key).is_some(),
        Requirement::Absent(key) => value(key).is_none(),
    }
}

fn field_text(object: &Value, pointer: &str) -> String {
    match fields::at(object, pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(value)) => value.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ if pointer == "/spec/unschedulable" => "false".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn label_selectors_pick_what_kubernetes_picks() {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "front"}}});
        let rows = [
            ("", true),
            ("app=web", true),
            ("app==web,tier=front", true),
            ("app!=web", false),
            ("missing!=x", true),
            ("app in (web, api)", true),
            ("app notin (web,api),tier", false),
            ("tier,!missing", true),
            ("!tier", false),
        ];
        for (text, picked) in rows {
            let selector = Selector::parse(text, "").expect("the row is well formed");
            assert_eq!(selector.matches(&object), picked, "{text}");
        }
    }

    #[test]
    fn unknown_field_labels_are_refused() {
        assert!(Selector::parse("", "spec.replicas=3").is_err());
        let selector = Selector::parse("", "spec.nodeName=n1").expect("a known field");
        assert!(selector.matches(&json!({"spec": {"nodeName": "n1"}})));
        assert!(!selector.matches(&json!({"spec": {}})));
    }
}
