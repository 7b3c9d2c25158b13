//! What a person sees of a pool that rolls: a picture on a terminal, lines elsewhere.

use std::io::{self, Write};

use jiff::SignedDuration;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};
use weir_core::view::{InstanceView, Phase, PoolView};

/// How many waits the picture has room for.
const WAITS_SHOWN: usize = 4;

/// Where a rollout is shown.
pub(crate) enum Screen {
    /// A picture that changes in place.
    Live(Box<DefaultTerminal>),
    /// One line for each thing that changed.
    Lines(Told),
}

/// What lines have said already.
#[derive(Default)]
pub(crate) struct Told {
    counts: String,
    waits: Vec<String>,
    steps: Vec<String>,
}

impl Screen {
    /// Takes the terminal.
    pub(crate) fn live() -> io::Result<Screen> {
        Ok(Screen::Live(Box::new(ratatui::try_init()?)))
    }

    /// Takes nothing.
    pub(crate) fn lines() -> Screen {
        Screen::Lines(Told::default())
    }

    /// Shows a pool.
    pub(crate) fn show(
        &mut self,
        out: &mut impl Write,
        view: &PoolView,
        elapsed: SignedDuration,
    ) -> io::Result<()> {
        match self {
            Screen::Live(terminal) => {
                terminal.draw(|frame| draw(frame, view, elapsed))?;
                Ok(())
            }
            Screen::Lines(told) => told.tell(out, view, elapsed),
        }
    }

    /// Returns whether the person asked to leave.
    pub(crate) fn was_left(&self) -> io::Result<bool> {
        let Screen::Live(_) = self else {
            return Ok(false);
        };
        while event::poll(std::time::Duration::ZERO)? {
            if let Event::Key(key) = event::read()? {
                let control_c =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Gives the terminal back.
    pub(crate) fn leave(self) -> io::Result<()> {
        match self {
            Screen::Live(_) => ratatui::try_restore(),
            Screen::Lines(_) => Ok(()),
        }
    }
}

impl Told {
    fn tell(
        &mut self,
        out: &mut impl Write,
        view: &PoolView,
        elapsed: SignedDuration,
    ) -> io::Result<()> {
        let clock = clock(elapsed);
        if view.steps != self.steps {
            for step in &view.steps {
                writeln!(out, "{clock}  {step}")?;
            }
            self.steps.clone_from(&view.steps);
        }
        let counts = format!(
            "{} available (floor {}), {} exist (ceiling {}), {} updated",
            view.available, view.floor, view.total, view.ceiling, view.updated
        );
        if counts != self.counts {
            writeln!(out, "{clock}  {counts}")?;
            self.counts = counts;
        }
        // Every instance that starts or drains has a wait of its own: a count says it already.
        let waits: Vec<_> = view
            .waits
            .iter()
            .filter(|wait| !is_routine(wait))
            .cloned()
            .collect();
        if waits != self.waits {
            for wait in waits.iter().filter(|wait| !self.waits.contains(wait)) {
                writeln!(out, "{clock}  waiting: {wait}")?;
            }
            self.waits = waits;
        }
        Ok(())
    }
}

fn is_routine(wait: &str) -> bool {
    wait.ends_with("is starting") || wait.ends_with("is draining") || wait.starts_with("Azure is")
}

fn clock(elapsed: SignedDuration) -> String {
    let seconds = elapsed.as_secs();
    format!("{:>2}:{:02}", seconds / 60, seconds % 60)
}

fn draw(frame: &mut Frame<'_>, view: &PoolView, elapsed: SignedDuration) {
    let [head, gauges, rows, waits] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(3),
        Constraint::Fill(1),
        Constraint::Length(WAITS_SHOWN as u16 + 2),
    ])
    .areas(frame.area());
    let title = Line::from(vec![
        Span::styled(format!(" weir  pool {}", view.name), Style::new().bold()),
        Span::raw(format!("   {} simulated   ", clock(elapsed))),
        Span::styled("q to leave", Style::new().dim()),
    ]);
    frame.render_widget(Paragraph::new(title), head);
    frame.render_widget(Paragraph::new(gauge_lines(view, gauges.width)), gauges);
    frame.render_widget(table(view), rows);
    frame.render_widget(Paragraph::new(wait_lines(view)), waits);
}

fn gauge_lines(view: &PoolView, width: u16) -> Vec<Line<'static>> {
    let room = usize::from(width).saturating_sub(44).max(10);
    let gauge = |name: &str, count: u32, limit: &str, mark: u32, color: Color| {
        let full = view.ceiling.max(view.total).max(1) as usize;
        let filled = (count as usize * room).div_ceil(full).min(room);
        let at = (mark as usize * room).div_ceil(full).min(room);
        let bar: String = (0..room)
            .map(|cell| match cell {
                cell if cell + 1 == at => '|',
                cell if cell < filled => '=',
                _ => ' ',
            })
            .collect();
        Line::from(vec![
            Span::raw(format!(" {name:<10} {count:>4}  ")),
            Span::styled(bar, Style::new().fg(color)),
            Span::raw(format!("  {limit}")),
        ])
    };
    let floor = format!("floor {}", view.floor);
    let ceiling = format!("ceiling {}", view.ceiling);
    let goal = format!("of {}", view.replicas);
    vec![
        gauge(
            "available",
            view.available,
            &floor,
            view.floor,
            Color::Green,
        ),
        gauge("existing", view.total, &ceiling, view.ceiling, Color::Blue),
        gauge("updated", view.updated, &goal, view.replicas, Color::Cyan),
    ]
}

fn table(view: &PoolView) -> Table<'_> {
    let widths = [
        Constraint::Length(6),
        Constraint::Length(18),
        Constraint::Length(9),
        Constraint::Length(12),
        Constraint::Fill(1),
    ];
    let header = Row::new([" id", "node", "model", "state", ""]).style(Style::new().dim());
    Table::new(view.instances.iter().map(row), widths).header(header)
}

fn row(instance: &InstanceView) -> Row<'_> {
    let model = if instance.current { "new" } else { "old" };
    let color = match instance.phase {
        Phase::Serving if instance.current => Color::Green,
        Phase::Serving => Color::Gray,
        Phase::Starting => Color::Yellow,
        Phase::Unready | Phase::Broken => Color::Red,
        Phase::Draining | Phase::Drained => Color::Magenta,
        Phase::Deleting => Color::DarkGray,
    };
    Row::new([
        format!(" {}", instance.id),
        instance.node.clone().unwrap_or_default(),
        model.to_owned(),
        instance.phase.to_string(),
        instance.note.clone(),
    ])
    .style(Style::new().fg(color))
}

fn wait_lines(view: &PoolView) -> Vec<Line<'_>> {
    let heading = Style::new().add_modifier(Modifier::DIM);
    let mut lines = vec![Line::styled(" waiting for", heading)];
    let telling: Vec<_> = view.waits.iter().filter(|wait| !is_routine(wait)).collect();
    let routine: Vec<_> = view.waits.iter().filter(|wait| is_routine(wait)).collect();
    let shown = telling.iter().chain(&routine).take(WAITS_SHOWN);
    lines.extend(shown.map(|wait| Line::raw(format!("  {wait}"))));
    if view.waits.len() > WAITS_SHOWN {
        let more = view.waits.len() - WAITS_SHOWN;
        lines.push(Line::styled(format!("  and {more} more"), heading));
    }
    lines
}
