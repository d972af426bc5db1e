// The driver of Vert.x's AMQP 1.0 client: see docs/reference/client-drivers.md.
import static java.util.Map.entry;

import io.vertx.amqp.AmqpClient;
import io.vertx.amqp.AmqpClientOptions;
import io.vertx.amqp.AmqpConnection;
import io.vertx.amqp.AmqpMessage;
import io.vertx.amqp.AmqpReceiver;
import io.vertx.amqp.AmqpReceiverOptions;
import io.vertx.amqp.AmqpSender;
import io.vertx.amqp.AmqpSenderOptions;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

final class VertxAmqp {
    // Vert.x closes the connections of a client that nothing refers to.
    private static AmqpClient client;
    private static volatile AmqpConnection connection;
    private static final Map<String, AmqpSender> senders = new ConcurrentHashMap<>();
    private static final Map<String, AmqpReceiver> receivers = new ConcurrentHashMap<>();
    private static final List<AmqpMessage> received = new ArrayList<>();
    // A listener that worked in the event loop would stop its timers.
    private static final Executor listener = Executors.newSingleThreadExecutor();
    private static int posted;

    private static void connect(DriverLines.Asked asked) {
        AmqpClientOptions options = new AmqpClientOptions()
                .setHost(asked.text("host"))
                .setPort(asked.number("port"))
                .setUsername(asked.text("login"))
                .setPassword(asked.text("passcode"))
                .setHeartbeat(asked.number("idle_ms"));
        if (asked.number("max_frame") > 0) options.setMaxFrameSize(asked.number("max_frame"));
        client = AmqpClient.create(Vertx.vertx(), options);
        client.connect().onSuccess(made -> {
            connection = made;
            made.exceptionHandler(problem -> {
                DriverLines.reportError(problem);
                DriverLines.report("disconnected");
            });
            made.closeFuture().onComplete(ended -> DriverLines.report("disconnected"));
            DriverLines.report("connected");
        }).onFailure(problem -> {
            DriverLines.reportError(problem);
            DriverLines.report("disconnected");
        });
    }

    private static void sender(DriverLines.Asked asked) {
        String name = asked.text("link");
        connection.createSender(asked.text("address"), new AmqpSenderOptions().setLinkName(name)).onSuccess(made -> {
            senders.put(name, made);
            made.exceptionHandler(problem -> DriverLines.report("link-closed", "link", name));
            DriverLines.report("link-open", "link", name);
        }).onFailure(DriverLines::reportError);
    }

    private static void receiver(DriverLines.Asked asked) {
        String name = asked.text("link");
        AmqpReceiverOptions options = new AmqpReceiverOptions()
                .setLinkName(name)
                .setMaxBufferedMessages(asked.number("credit"))
                .setAutoAcknowledgement(false);
        connection.createReceiver(asked.text("address"), options).onSuccess(made -> {
            receivers.put(name, made);
            DriverLines.report("link-open", "link", name);
            made.exceptionHandler(DriverLines::reportError);
            made.endHandler(ended -> DriverLines.report("link-closed", "link", name));
            made.handler(message -> listener.execute(() -> {
                try {
                    byte[] body = message.bodyAsBinary().getBytes();
                    DriverLines.reportMessage(Map.of("link", name), body, () -> received.add(message));
                } catch (InterruptedException ended) {
                    Thread.currentThread().interrupt();
                }
            }));
        }).onFailure(DriverLines::reportError);
    }

    private static void send(DriverLines.Asked asked) {
        AmqpMessage message = AmqpMessage.create().withBufferAsBody(Buffer.buffer(asked.content())).build();
        AmqpSender sender = senders.get(asked.text("link"));
        int number = ++posted;
        Future<Void> done = sender.sendWithAck(message);
        done.onSuccess(nothing -> DriverLines.report("settled", "number", number, "outcome", "accepted"));
        done.onFailure(problem -> DriverLines.report("settled", "number", number, "outcome", outcome(problem)));
    }

    private static String outcome(Throwable problem) {
        String told = String.valueOf(problem.getMessage()).toLowerCase();
        return List.of("released", "modified", "rejected").stream().filter(told::contains).findFirst().orElse(told);
    }

    private static void settle(DriverLines.Asked asked) {
        AmqpMessage one;
        synchronized (DriverLines.class) {
            one = received.get(asked.number("message") - 1);
        }
        switch (asked.text("outcome")) {
            case "accepted" -> one.accepted();
            case "rejected" -> one.rejected();
            case "released" -> one.released();
            default -> one.modified(true, false);
        }
    }

    private static void closeLink(String name) {
        if (senders.containsKey(name)) senders.get(name).close();
        else receivers.get(name).close();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, DriverLines.Action<DriverLines.Asked>> commands = Map.ofEntries(
                entry("connect", VertxAmqp::connect),
                entry("sender", VertxAmqp::sender),
                entry("receiver", VertxAmqp::receiver),
                entry("send", VertxAmqp::send),
                entry("settle", VertxAmqp::settle),
                entry("close_link", asked -> closeLink(asked.text("link"))),
                entry("disconnect", asked -> connection.close()));
        DriverLines.serve("Vert.x AMQP client", AmqpClient.class, commands);
    }
}
