// The driver of fe2o3-amqp: see docs/reference/client-drivers.md. A link belongs to a task of its own.
mod driver_lines;
use driver_lines::{content, number, report, report_error, report_message, serve, text};
use fe2o3_amqp::link::delivery::DeliveryInfo;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::definitions::SenderSettleMode;
use fe2o3_amqp::types::messaging::{Body, Message, Modified, Outcome};
use fe2o3_amqp::types::primitives::{Binary, Value};
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};

enum Step {
    Send(Vec<u8>),
    Settle(DeliveryInfo, String),
    Close,
}

#[derive(Default)]
struct State {
    attaching: Option<UnboundedSender<serde_json::Value>>,
    closing: Option<UnboundedSender<()>>,
    links: HashMap<String, UnboundedSender<Step>>,
    received: Vec<(String, DeliveryInfo)>,
    posted: usize,
}

type Shared = Arc<Mutex<State>>;

async fn connect(shared: Shared, asked: serde_json::Value) -> driver_lines::Outcome {
    let profile = SaslProfile::Plain { username: text(&asked, "login"), password: text(&asked, "passcode") };
    let mut builder = Connection::builder().container_id(format!("driver-{}", std::process::id())).sasl_profile(profile);
    if number(&asked, "idle_ms") > 0 {
        builder = builder.idle_time_out(number(&asked, "idle_ms") as u32);
    }
    if number(&asked, "max_frame") > 0 {
        builder = builder.max_frame_size(number(&asked, "max_frame") as u32);
    }
    let address = format!("amqp://{}:{}", text(&asked, "host"), number(&asked, "port"));
    let mut connection = builder.open(&address[..]).await?;
    let mut session = Session::begin(&mut connection).await?;
    let (attaching, mut wanted) = unbounded_channel::<serde_json::Value>();
    let (closing, mut close) = unbounded_channel();
    {
        let mut state = shared.lock().unwrap();
        (state.attaching, state.closing) = (Some(attaching), Some(closing));
    }
    report("connected", json!({}));
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = connection.on_close() => ended,
            _ = close.recv() => connection.close().await,
        };
        if let Err(problem) = ended {
            report_error(problem);
        }
        report("disconnected", json!({}));
    });
    tokio::spawn(async move {
        while let Some(asked) = wanted.recv().await {
            let steps = unbounded_channel();
            shared.lock().unwrap().links.insert(text(&asked, "link"), steps.0);
            if asked["do"] == "sender" {
                sender(&shared, &mut session, asked, steps.1).await;
            } else {
                receiver(&shared, &mut session, asked, steps.1).await;
            }
        }
    });
    Ok(())
}

async fn sender(shared: &Shared, session: &mut SessionHandle<()>, asked: serde_json::Value, mut steps: UnboundedReceiver<Step>) {
    let (name, settled) = (text(&asked, "link"), asked["mode"] == "settled");
    let mode = if settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled };
    let builder = Sender::builder().name(name.clone()).target(text(&asked, "address")).sender_settle_mode(mode);
    let mut link = match builder.attach(session).await {
        Ok(link) => link,
        Err(problem) => return report_error(problem),
    };
    report("link-open", json!({"link": name}));
    let shared = shared.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                step = steps.recv() => match step {
                    Some(Step::Send(body)) => {
                        let message = Message::builder().data(Binary::from(body)).build();
                        let outcome = match link.send_batchable(message).await {
                            Ok(outcome) => outcome,
                            Err(problem) => {
                                report_error(problem);
                                break;
                            }
                        };
                        let mut state = shared.lock().unwrap();
                        state.posted += 1;
                        let posted = state.posted;
                        tokio::spawn(async move {
                            match outcome.await {
                                _ if settled => (),
                                Ok(told) => report("settled", json!({"number": posted, "outcome": named(told)})),
                                Err(problem) => report_error(problem),
                            }
                        });
                    }
                    _ => {
                        if let Err(problem) = link.close().await {
                            report_error(problem);
                        }
                        break;
                    }
                },
                problem = link.on_detach() => {
                    report_error(problem);
                    break;
                }
            }
        }
        report("link-closed", json!({"link": name}));
    });
}

fn named(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted(_) => "accepted",
        Outcome::Rejected(_) => "rejected",
        Outcome::Released(_) => "released",
        Outcome::Modified(_) => "modified",
        #[allow(unreachable_patterns)]
        _ => "other",
    }
}

async fn receiver(shared: &Shared, session: &mut SessionHandle<()>, asked: serde_json::Value, mut steps: UnboundedReceiver<Step>) {
    let name = text(&asked, "link");
    let credit = CreditMode::Auto(number(&asked, "credit") as u32);
    let builder = Receiver::builder().name(name.clone()).source(text(&asked, "address")).credit_mode(credit).auto_accept(false);
    let mut link = match builder.attach(session).await {
        Ok(link) => link,
        Err(problem) => return report_error(problem),
    };
    report("link-open", json!({"link": name}));
    let shared = shared.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                step = steps.recv() => {
                    let done = match step {
                        Some(Step::Settle(one, outcome)) => match &outcome[..] {
                            "accepted" => link.accept(one).await,
                            "rejected" => link.reject(one, None).await,
                            "released" => link.release(one).await,
                            _ => link.modify(one, Modified { delivery_failed: Some(true), undeliverable_here: None, message_annotations: None }).await,
                        },
                        _ => {
                            if let Err(problem) = link.close().await {
                                report_error(problem);
                            }
                            break;
                        }
                    };
                    if let Err(problem) = done {
                        report_error(problem);
                    }
                }
                delivery = link.recv::<Body<Value>>() => match delivery {
                    Ok(delivery) => {
                        let body = match delivery.body() {
                            Body::Data(sections) => sections.iter().flat_map(|one| one.0.to_vec()).collect(),
                            _ => Vec::new(),
                        };
                        shared.lock().unwrap().received.push((name.clone(), DeliveryInfo::from(&delivery)));
                        report_message(json!({"link": name}), &body).await;
                    }
                    Err(problem) => {
                        report_error(problem);
                        break;
                    }
                }
            }
        }
        report("link-closed", json!({"link": name}));
    });
}

async fn obey(shared: Shared, name: String, asked: serde_json::Value) -> driver_lines::Outcome {
    if name == "connect" {
        tokio::spawn(async move {
            if let Err(problem) = connect(shared, asked).await {
                report_error(problem);
                report("disconnected", json!({}));
            }
        });
        return Ok(());
    }
    let state = shared.lock().unwrap();
    let gone = "there is no such link";
    match &name[..] {
        "sender" | "receiver" => state.attaching.as_ref().ok_or("there is no connection")?.send(asked)?,
        "send" => state.links.get(&text(&asked, "link")).ok_or(gone)?.send(Step::Send(content(&asked)))?,
        "close_link" => state.links.get(&text(&asked, "link")).ok_or(gone)?.send(Step::Close)?,
        "settle" => {
            let (link, one) = &state.received[number(&asked, "message") as usize - 1];
            state.links[link].send(Step::Settle(one.clone(), text(&asked, "outcome")))?;
        }
        "disconnect" => state.closing.as_ref().ok_or("there is no connection")?.send(())?,
        _ => return Err(format!("there is no command {name}").into()),
    }
    Ok(())
}

#[tokio::main]
async fn main() {
    let shared = Shared::default();
    serve("fe2o3-amqp", |name, asked| obey(shared.clone(), name, asked)).await;
}
