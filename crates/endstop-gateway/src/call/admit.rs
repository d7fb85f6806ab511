//! The second phase: the run records what the request says, and admits the call or not (`docs/semantics.md` section 2).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use endstop_core::event::EventKind;
use endstop_core::run::Directive;
use endstop_core::signal::StopSignal;
use endstop_llm::{
    BACKGROUND, CallRequest, ErrorKind, OutputKinds, SPEECH, STORED_CONVERSATION, Thread,
    ToolLimit, ToolResult, UNKNOWN_FILE,
};
use endstop_runtime::account::AccountWait;
use endstop_runtime::observe::Detail;
use endstop_runtime::{
    CallPlan, CancelOn, InputBound, Modalities, NotBegun, OpenCall, Pricing, Received, RunHandle,
};
use endstop_runtime::{ModelError, ModelErrorKind};
use endstop_runtime::{ToolCall, ToolOutcome};
use http::{Response, StatusCode};

use super::context::CallContext;
use super::count;
use super::drain::ClientPresence;
use super::key;
use super::negotiate::Negotiation;
use super::parse::ParsedCall;
use super::respond;
use super::settle::{CallTerms, InFlightCall};
use super::tools::{CallTools, TOOLS_REMOVED, ToolsFit};
use crate::body::Body;
use crate::limits::{MAX_ATTEMPTS, MAX_DEADLOCK_WAIT, MIN_COUNTED_INPUT};
use crate::run::{
    AcquireError, BudgetNote, CallAccountWait, ConversationPermit, ConversationState,
    ConversationStep, NoRun, NotLogged, RequestBound, RunEntry, stop_of,
};

/// Tools that hand over to another agent, as the usual frameworks name them.
const HANDOFF_TOOLS: [&str; 2] = ["transfer_to_", "handoff_to_"];

const UNKNOWN_THREAD: &str = "the request continues a conversation that the upstream keeps, so what it costs cannot \
    be bounded: send the whole conversation";
const UNKNOWN_MEDIA: &str = "the request refers to a file or a recording, whose size is not known here, and how much the \
    model takes at most is not known either, so what it costs cannot be bounded: send it inside the request";

/// Why a call is not admitted now.
enum AdmissionBlocked {
    /// The reservations of other calls in flight leave too little.
    ByOthers,
    /// An account has no room now, and will have, or its store fails.
    ByAccount(AccountWait),
    /// The run has stopped, or refuses this.
    Stopped(Box<StopSignal>),
    /// It waits for an approval.
    Paused,
    /// By its bytes it does not fit whole, and its tokens were not counted yet.
    Uncounted,
    /// Tokens or money are limited, and the call has something of unknown size or price.
    Unbounded(Unbounded),
}

/// Why a call is not sent.
pub(super) enum NotAdmitted {
    /// It has its answer.
    Answered(Box<Response<Body>>),
    /// Another gateway has taken the run: it has to be taken again.
    Moved,
}

impl From<Box<Response<Body>>> for NotAdmitted {
    fn from(answer: Box<Response<Body>>) -> Self {
        Self::Answered(answer)
    }
}

/// Something of a call whose cost cannot be bounded.
struct Unbounded {
    /// Its name in `allow_unmetered`.
    name: Cow<'static, str>,
    /// The words of the refusal.
    text: Cow<'static, str>,
}

impl Unbounded {
    const fn new(name: &'static str, text: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), text: Cow::Borrowed(text) }
    }
}

/// A call that the run has admitted: its worst case is reserved, and it is not sent yet.
#[derive(Debug)]
pub(super) struct AdmittedCall {
    open: OpenCall,
    terms: CallTerms,
    /// How its tools at the provider are limited.
    tools: ToolLimit,
    /// Warnings for the client.
    warning: Option<String>,
    permit: ConversationPermit,
}

impl AdmittedCall {
    /// Begins to send the call, in the form that its upstream is known to take. Also returns the warnings for the
    /// client.
    pub(super) fn into_in_flight(
        self,
        context: &CallContext,
        parsed: &ParsedCall,
        client: ClientPresence,
    ) -> (Box<InFlightCall>, Option<String>) {
        let Self { open, terms, tools, warning, permit } = self;
        let provider = context.provider(parsed.route());
        let (cap, is_wrap_up) = (open.output_cap(), terms.is_wrap_up);
        let negotiation =
            Negotiation::new(context.quirks(), provider, parsed, cap, is_wrap_up).with_tools(tools);
        let secrets = context.secrets(parsed.route(), parsed.head());
        let call = InFlightCall::new(open, terms, permit, parsed, negotiation, secrets, client);
        (call, warning)
    }

    /// Settles a call that is not sent, because the run cannot be logged.
    fn not_logged(self, run: &RunEntry) -> StopSignal {
        run.counters().failed_call();
        self.open.failed(
            &ModelError::new(ModelErrorKind::Rejected, "it was not sent"),
            &Received::default(),
        );
        run.stop_or("the run cannot be stored")
    }
}

/// Admits a call, with a share if it may take one, or returns the response that it gets instead. Waits while the run is
/// paused, and while other calls in flight leave too little.
pub(super) async fn admit(
    context: &CallContext,
    run: &Arc<RunEntry>,
    parsed: &ParsedCall,
    takes_share: bool,
) -> Result<AdmittedCall, NotAdmitted> {
    let (dialect, config) = (parsed.dialect(), context.config());
    let stopped = |signal: &StopSignal| stopped(context, run, parsed, signal);
    run.handle().checkpoint();
    if let Some(signal) = run.stop() {
        run.notify();
        return Err(stopped(&signal));
    }
    refuse_unreported(context, run, parsed)?;
    let mut permit = acquire(context, run, parsed)?;
    let mut admission =
        Admission { context, parsed, takes_share, is_recorded: false, counted: None };
    let (mut waiting, mut account_wait) = (None, CallAccountWait::default());
    loop {
        // Before each try: the body may have taken long, and a wait hours.
        key::recheck(context, run, parsed).await?;
        let notified = run.notified();
        let blocked = match admission.try_admit(permit) {
            Ok(admitted) => return logged(admitted, context, run, parsed),
            Err((kept, blocked)) => {
                permit = kept;
                blocked
            }
        };
        match blocked {
            AdmissionBlocked::Stopped(signal) => return Err(stopped(&signal)),
            AdmissionBlocked::Unbounded(Unbounded { name, text }) => {
                return Err(Box::new(respond::refused(run, dialect, &name, &text)).into());
            }
            AdmissionBlocked::ByOthers => {
                let waiting = waiting.get_or_insert_with(|| run.waiting_call());
                if waiting.stuck_for() >= MAX_DEADLOCK_WAIT.min(config.pause.0) {
                    return Err(Box::new(respond::deadlocked(run, dialect)).into());
                }
                account_wait.interrupt();
                // If the run is aborted in the meantime, the next try reports it.
                run.handle().wait_for_others(notified, CancelOn::Abort).await;
            }
            AdmissionBlocked::ByAccount(wait) => {
                if account_wait.go_on(run, &wait, config.pause.0) {
                    return Err(match &wait {
                        AccountWait::Store { why, .. } => {
                            Box::new(respond::uncounted(run, dialect, why)).into()
                        }
                        AccountWait::Room { refused, .. } => stopped(&refused.signal()),
                    });
                }
                run.handle().wait_for_account(&wait).await;
                // The accounts may limit other things than before.
                refuse_unreported(context, run, parsed)?;
            }
            AdmissionBlocked::Uncounted => {
                account_wait.interrupt();
                admission.counted = Some(Box::pin(count::input_tokens(context, run, parsed)).await);
            }
            AdmissionBlocked::Paused => {
                account_wait.interrupt();
                run.wait_while_paused(config.pause.0).await;
                if run.is_paused() {
                    return Err(stopped(&respond::paused(run)));
                }
            }
        }
    }
}

/// Logs an admitted call before it is sent: its spend must survive a crash.
fn logged(
    admitted: AdmittedCall,
    context: &CallContext,
    run: &RunEntry,
    parsed: &ParsedCall,
) -> Result<AdmittedCall, NotAdmitted> {
    run.account_waits().admitted();
    let Err(why) = run.log_now() else { return Ok(admitted) };
    let signal = admitted.not_logged(run);
    let NotLogged::Away(why) = why else { return Err(stopped(context, run, parsed, &signal)) };
    let answer = respond::no_run(parsed.dialect(), run.id(), &NoRun::Away(why));
    Err(Box::new(answer).into())
}

/// The stop response to a call.
fn stopped(
    context: &CallContext,
    run: &RunEntry,
    parsed: &ParsedCall,
    signal: &StopSignal,
) -> NotAdmitted {
    if matches!(run.log_now(), Err(NotLogged::Moved)) || run.has_moved() {
        // The gateway that serves it now may admit the call.
        return NotAdmitted::Moved;
    }
    let (dialect, with) = (parsed.dialect(), context.config().stop_with);
    Box::new(respond::stop(run, dialect, Some(parsed.request()), signal, with)).into()
}

/// The conversation of a call, or the response that the call gets instead.
fn acquire(
    context: &CallContext,
    run: &Arc<RunEntry>,
    parsed: &ParsedCall,
) -> Result<ConversationPermit, Box<Response<Body>>> {
    let (dialect, request, config) = (parsed.dialect(), parsed.request(), context.config());
    let (child, bounds) = (&parsed.route().child, &config.bounds);
    let acquired = ConversationPermit::acquire(run, child, request, parsed.digests(), bounds);
    acquired.map_err(|error| {
        Box::new(match error {
            AcquireError::TooManyCalls => {
                respond::overloaded(dialect, "too many calls of this run are in flight")
            }
            AcquireError::ChildRefused => {
                let signal = run.stop_or("no further sub-agent can begin in this run");
                respond::stop(run, dialect, Some(request), &signal, config.stop_with)
            }
        })
    })
}

/// Returns the refusal of a call whose usage is not reported here, if it must be counted.
fn refuse_unreported(
    context: &CallContext,
    run: &RunEntry,
    parsed: &ParsedCall,
) -> Result<(), Box<Response<Body>>> {
    let (dialect, request) = (parsed.dialect(), parsed.request());
    let is_of_run =
        || request.continues.as_ref().is_some_and(|id| run.responses().tokens(id).is_some());
    if parsed.route().has_issued_key() && request.thread == Thread::Continues && !is_of_run() {
        let text = "the request continues a response that is not one of this run, or no longer known: send the whole \
            conversation";
        let (status, kind) = (StatusCode::FORBIDDEN, ErrorKind::Invalid);
        return Err(Box::new(respond::error(dialect, status, kind, text)));
    }
    if request.thread == Thread::CanResend && context.refuses(run, STORED_CONVERSATION) {
        let text = "this gateway keeps no threads: send the whole conversation";
        let (status, kind) = (StatusCode::BAD_REQUEST, ErrorKind::Thread);
        return Err(Box::new(respond::error(dialect, status, kind, text)));
    }
    if request.is_background && context.refuses(run, BACKGROUND) {
        let text = "the request runs in the background (`background`), so its cost is not reported \
            here: send it without";
        return Err(Box::new(respond::refused(run, dialect, BACKGROUND, text)));
    }
    Ok(())
}

/// The admission of one call.
struct Admission<'c> {
    context: &'c CallContext,
    parsed: &'c ParsedCall,
    /// Whether it may take a share while other calls are in flight.
    takes_share: bool,
    /// Whether the conversation has recorded what the request says.
    is_recorded: bool,
    /// The most input tokens by the upstream's count, once it was asked; none inside if it does not count.
    counted: Option<Option<u64>>,
}

impl Admission<'_> {
    fn try_admit(
        &mut self,
        mut permit: ConversationPermit,
    ) -> Result<AdmittedCall, (ConversationPermit, AdmissionBlocked)> {
        let (parsed, is_recorded) = (self.parsed, self.is_recorded);
        let has_moved = permit.move_to_first_for_wrap_up(|own| {
            if !is_recorded {
                record_request(&mut own.state(), parsed);
            }
        });
        if has_moved {
            // The conversation that wraps up closes its open step.
            self.is_recorded = false;
        }
        match self.begin(&permit) {
            Ok((open, terms, tools)) => {
                let removed = (tools == ToolLimit::Remove).then(|| TOOLS_REMOVED.to_owned());
                let run = permit.run();
                let fields = &parsed.request().unknown_fields;
                let is_metered = self.context.is_metered(run);
                let unknown = is_metered.then(|| run.unknown_fields().note(fields)).flatten();
                let all = removed.into_iter().chain(unknown).chain(warnings(run.handle()));
                let warning = all.reduce(|all, one| format!("{all}; {one}"));
                Ok(AdmittedCall { open, terms, tools, warning, permit })
            }
            Err(blocked) => Err((permit, blocked)),
        }
    }

    /// Records the request and starts the call.
    fn begin(
        &mut self,
        permit: &ConversationPermit,
    ) -> Result<(OpenCall, CallTerms, ToolLimit), AdmissionBlocked> {
        let (context, parsed) = (self.context, self.parsed);
        let (entry, request) = (&**permit.run(), parsed.request());
        let renewed = permit.renew();
        let mut state = permit.conversation().state();
        let run = state.run().clone();
        let blocked = || AdmissionBlocked::of(entry, &run);
        if renewed.is_err() {
            return Err(blocked());
        }
        if !std::mem::replace(&mut self.is_recorded, true) {
            record_request(&mut state, parsed);
        }
        run.checkpoint();
        drop(state);
        // The call may have waited since its run was taken, and the first budget of its model may have been defined since then.
        let accounts = run.refresh_accounts();
        permit.conversation().pass_on_stop();
        let mut state = permit.conversation().state();
        if entry.is_paused() || stop_of(&run).is_some() || entry.stop().is_some() {
            return Err(blocked());
        }
        let (bound, pricing) = self.size(entry, &state)?;
        let is_wrap_up =
            matches!(state.step(), ConversationStep::AwaitingResponse { is_wrap_up: true, .. });
        let plan = self.plan(bound.input, &pricing, is_wrap_up, run.min_output_tokens());
        let plan = CallPlan { accounts: accounts.as_ref(), ..plan };
        let tools = self.limit_tools(entry, &run, plan)?;
        let searching = (tools.searches > 0).then(|| pricing.clone().with_searches(tools.searches));
        let pricing_with_tools = searching.as_ref().unwrap_or(&pricing);
        let mut call = CallPlan {
            pricing: pricing_with_tools,
            tool_input: plan.tool_input.saturating_add(tools.input),
            ..plan
        };
        if self.lacks_count(entry, &run, bound, &mut call) {
            return Err(AdmissionBlocked::Uncounted);
        }
        let digest = parsed.body_digest();
        let is_attempt = matches!(state.step(), ConversationStep::AwaitingResponse { .. });
        let percents = &context.config().tell_model;
        let note = entry.budget_notes().next(entry.handle(), percents, digest, is_attempt);
        // A request that is admitted again carries the note of the first time.
        let more = match (parsed.note(), &note) {
            (Some(sent), _) => BudgetNote::tokens_of(sent),
            (None, note) => note.as_ref().map_or(0, |note| BudgetNote::tokens_of(&note.text)),
        };
        call.input.tokens = call.input.tokens.saturating_add(more);
        call.tool_input = call.tool_input.saturating_add(request.added_by_more_reads(more));
        let open = begin_call(&mut state, &mut call, digest, &blocked)?;
        if let Some(note) = note {
            entry.budget_notes().told(&note);
            parsed.set_note(&note.text);
        }
        state.memory_mut().remember_request(request, parsed.digests());
        let is_wrap_up = call.is_wrap_up;
        drop(state);
        let inner_error = context.inner_error(self.parsed.route());
        let terms = CallTerms { run, is_wrap_up, inner_error };
        Ok((open, terms, tools.limit))
    }

    /// The call without what its tools at the provider can add.
    fn plan<'p>(
        &self,
        input: InputBound,
        pricing: &'p Pricing,
        is_wrap_up: bool,
        min_output: u64,
    ) -> CallPlan<'p> {
        let (context, request) = (self.context, self.parsed.request());
        let provider = context.provider(self.parsed.route());
        let choices = request.choices.max(1);
        let default_output = context.config().default_output;
        let wanted = request.output_cap.unwrap_or_else(|| {
            context.quirks().output_cap(provider, &request.model, default_output)
        });
        CallPlan {
            pricing,
            input,
            tool_input: request.added_by_more_reads(input.tokens),
            max_output: wanted.saturating_mul(choices),
            min_output: min_output.saturating_mul(choices),
            is_wrap_up,
            is_final: true,
            // A share would be one of all choices together.
            takes_share: self.takes_share && choices == 1,
            accounts: None,
        }
    }

    /// The most tokens that the model reads at once; unknown without a price.
    fn context_window(&self, pricing: &Pricing) -> Option<u64> {
        let own = pricing.context_window()?;
        Some(self.parsed.asked_window().map_or(own, |asked| asked.max(own)))
    }

    /// Limits the tools that run at the provider, so that the call fits.
    fn limit_tools(
        &self,
        entry: &RunEntry,
        run: &RunHandle,
        plan: CallPlan<'_>,
    ) -> Result<ToolsFit, AdmissionBlocked> {
        let request = self.parsed.request();
        if request.provider_tools.is_empty() {
            return Ok(ToolsFit::default());
        }
        let choices = request.choices.max(1);
        let window = self.context_window(plan.pricing).unwrap_or(Pricing::LARGEST_WINDOW);
        let tools = CallTools { run, tools: &request.provider_tools, plan, window, choices };
        tools.fit(|name| !self.context.refuses(entry, name)).map_err(|name| {
            AdmissionBlocked::Unbounded(Unbounded {
                name: Cow::Borrowed(name),
                text: format!(
                    "`{name}` runs at the provider, which asks the model again after each run, with up to a whole \
                     context window of input. Not even one run fits into the remaining budget: send the request without it"
                )
                .into(),
            })
        })
    }

    /// The largest possible input of the call, and its prices.
    fn size(
        &self,
        entry: &RunEntry,
        state: &ConversationState,
    ) -> Result<(RequestBound, Pricing), AdmissionBlocked> {
        let (context, parsed) = (self.context, self.parsed);
        let request = parsed.request();
        let refuses = |name: &str| context.refuses(entry, name);
        let bound = match state.memory().bound(request, parsed.digests(), entry.responses()) {
            Some(bound) => bound,
            None if refuses(STORED_CONVERSATION) => {
                let what = Unbounded::new(STORED_CONVERSATION, UNKNOWN_THREAD);
                return Err(AdmissionBlocked::Unbounded(what));
            }
            None => RequestBound {
                input: InputBound::of_bytes(request.fixed_bound()),
                is_open: false,
                can_be_counted: false,
            },
        };
        let provider = context.provider(parsed.route());
        let pricing = pricing_of(context, provider, request);
        if let Some(what) = unpriced(request, &pricing, refuses) {
            return Err(AdmissionBlocked::Unbounded(what));
        }
        let tokens = match self.context_window(&pricing) {
            // An upstream takes no more than that.
            Some(window) if bound.is_open => bound.input.tokens.max(window),
            None if bound.is_open && refuses(UNKNOWN_FILE) => {
                let what = Unbounded::new(UNKNOWN_FILE, UNKNOWN_MEDIA);
                return Err(AdmissionBlocked::Unbounded(what));
            }
            _ => bound.input.tokens,
        };
        let input = InputBound { tokens, ..bound.input };
        Ok((RequestBound { input, ..bound }, pricing))
    }

    /// Whether the input of a call should be counted before its output cap is lowered or the call is refused. Applies a
    /// count once there is one.
    fn lacks_count(
        &self,
        entry: &RunEntry,
        run: &RunHandle,
        bound: RequestBound,
        call: &mut CallPlan<'_>,
    ) -> bool {
        if !bound.can_be_counted || bound.is_open {
            return false;
        }
        let Some(counted) = self.counted else {
            let new_input = bound.input.tokens.saturating_sub(bound.input.counted);
            return new_input >= MIN_COUNTED_INPUT
                && self.context.is_metered(entry)
                && run.would_gain_by_count(call);
        };
        if let Some(counted) = counted {
            call.input = bound.input.with_count(counted);
        }
        false
    }
}

impl AdmissionBlocked {
    /// Why nothing begins now: for the run that pays first.
    fn of(entry: &RunEntry, run: &RunHandle) -> Self {
        if entry.is_paused() {
            return Self::Paused;
        }
        let signal = entry.stop().or_else(|| stop_of(run));
        let signal = signal.unwrap_or_else(|| entry.stop_or("no call can begin now"));
        Self::Stopped(Box::new(signal))
    }
}

/// The price of a request, whichever model responds.
fn pricing_of(context: &CallContext, provider: &'static str, request: &CallRequest) -> Pricing {
    let of = |model: &str| context.prices().of(provider, model);
    let pricing = of(&request.model).for_request(&request.context, request.may_write_1h);
    let pricing = pricing.with_modalities(modalities(request));
    if request.fallbacks.is_empty() {
        return pricing;
    }
    pricing.or_others(request.fallbacks.iter().map(|model| of(model)).collect())
}

fn modalities(request: &CallRequest) -> Modalities {
    Modalities {
        media_input: request.has_media(),
        audio_output: request.outputs.audio,
        image_output: request.outputs.image,
    }
}

/// Returns something in a request without a known price, if that is refused.
fn unpriced(
    request: &CallRequest,
    pricing: &Pricing,
    refuses: impl Fn(&str) -> bool,
) -> Option<Unbounded> {
    let unbounded = |name: String, what: &str| {
        Unbounded {
        name: name.into(),
        text: format!(
            "the price of {what} is not known, so what the request costs cannot be bounded: send it without"
        )
        .into(),
    }
    };
    for what in &request.unbounded {
        // Some have a value after their key.
        let name = what.split(':').next().unwrap_or(what);
        if refuses(name) {
            return Some(unbounded(name.to_owned(), &format!("`{what}`")));
        }
    }
    let OutputKinds { audio, text, .. } = request.outputs;
    // A model that answers with speech alone has its price as that of its output.
    let asked = Modalities { audio_output: audio, image_output: false, media_input: false };
    let is_unknown = audio && text && !pricing.has_output_rates(asked);
    (is_unknown && refuses(SPEECH))
        .then(|| unbounded(SPEECH.to_owned(), &format!("speech of `{}`", pricing.model())))
}

/// Begins the step of a call, if none is open for it, and the call.
fn begin_call(
    state: &mut ConversationState,
    call: &mut CallPlan<'_>,
    digest: u64,
    blocked: &dyn Fn() -> AdmissionBlocked,
) -> Result<OpenCall, AdmissionBlocked> {
    match state.step() {
        ConversationStep::AwaitingResponse { is_wrap_up, .. } => call.is_wrap_up = is_wrap_up,
        ConversationStep::Closed | ConversationStep::AwaitingResults => {
            if state.run().waits_for_others(call) {
                return Err(AdmissionBlocked::ByOthers);
            }
            if let Some(wait) = state.run().awaits_store(call) {
                return Err(AdmissionBlocked::ByAccount(wait));
            }
            let directive = state.run().begin_step(call);
            if !directive.admits() {
                return Err(blocked());
            }
            call.is_wrap_up = directive == Directive::Finish;
            state.open_step(digest, call.is_wrap_up);
        }
    }
    match state.run().begin_call(call) {
        Ok(open) => {
            state.count_attempt();
            Ok(open)
        }
        // The step stays open for it.
        Err(NotBegun::OthersHold) => Err(AdmissionBlocked::ByOthers),
        Err(NotBegun::AwaitsAccount(wait)) => Err(AdmissionBlocked::ByAccount(wait)),
        // Each time a step begins, so that the step limit ends it at the latest.
        Err(NotBegun::WrapUpDue) => {
            state.close_step();
            begin_call(state, call, digest, blocked)
        }
        Err(NotBegun::Over(_)) => {
            let blocked = blocked();
            if !matches!(blocked, AdmissionBlocked::Paused) {
                state.close_step();
            }
            Err(blocked)
        }
    }
}

/// Records what the request says of the time since the last response.
fn record_request(state: &mut ConversationState, parsed: &ParsedCall) {
    let request = parsed.request();
    let is_attempt = matches!(state.step(), ConversationStep::AwaitingResponse { digest, attempts, .. }
        if digest == parsed.body_digest() && attempts < MAX_ATTEMPTS);
    if is_attempt {
        return;
    }
    let calls = state.memory_mut().take_calls();
    for call in &calls {
        if let Some(result) = result_of(call, &calls, &request.results) {
            record_result(state.run(), call, result);
        }
    }
    state.close_step();
    if state.memory().has_new_user_message(request, parsed.digests()) {
        state.run().record(&EventKind::UserMessage, Detail::None);
    }
}

/// Returns the result of a tool call: by its id; if the API has none, the n-th result of the same tool.
fn result_of<'r>(
    call: &ToolCall,
    calls: &[ToolCall],
    results: &'r [ToolResult],
) -> Option<&'r ToolResult> {
    if let Some(known) = results.iter().find(|it| !it.id.is_empty() && it.id == call.id) {
        return Some(known);
    }
    let same = calls.iter().filter(|other| other.tool == call.tool);
    let at = same.take_while(|other| !std::ptr::eq(*other, call)).count();
    results.iter().filter(|it| it.id.is_empty() && it.tool == call.tool).nth(at)
}

fn record_result(run: &RunHandle, call: &ToolCall, result: &ToolResult) {
    let outcome = if result.failed { ToolOutcome::Failed } else { ToolOutcome::Succeeded };
    let detail = Detail::Tool { call, outcome: Some(outcome), took: Duration::ZERO };
    let kind = EventKind::ToolEnd {
        tool: &call.tool,
        arguments: &call.arguments,
        result: &result.content,
        failed: result.failed,
    };
    run.record(&kind, detail);
    let to = HANDOFF_TOOLS.iter().find_map(|prefix| call.tool.strip_prefix(prefix));
    if let Some(to) = to.filter(|to| !to.is_empty() && !result.failed) {
        run.record(&EventKind::HandOff { to }, Detail::None);
    }
}

/// Returns the warnings that no client has received yet.
fn warnings(run: &RunHandle) -> Option<String> {
    let notices = run.take_notices();
    if notices.is_empty() {
        return None;
    }
    let texts = notices.iter().map(|notice| format!("{}: {}", notice.rule, notice.message));
    Some(texts.collect::<Vec<_>>().join("; "))
}
