// The driver of Vert.x's STOMP client: see docs/reference/client-drivers.md.
import static java.util.Map.entry;

import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.stomp.Frame;
import io.vertx.ext.stomp.StompClient;
import io.vertx.ext.stomp.StompClientConnection;
import io.vertx.ext.stomp.StompClientOptions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

final class VertxStomp {
    private static volatile StompClientConnection connection;
    // Vert.x closes the connections of a client that nothing refers to.
    private static StompClient client;
    private static final List<Frame> received = new ArrayList<>();
    // Vert.x forbids blocking its event loop: a listener that works there would stop the heartbeats.
    private static final Executor listener = Executors.newSingleThreadExecutor();

    private static void connect(DriverLines.Asked asked) {
        int[] beats = asked.pair("heart_beat");
        StompClientOptions options = new StompClientOptions()
                .setHost(asked.text("host"))
                .setPort(asked.number("port"))
                .setLogin(asked.text("login"))
                .setPasscode(asked.text("passcode"))
                .setVirtualHost(asked.text("vhost"))
                .setAcceptedVersions(new ArrayList<>(List.of(asked.text("version"))))
                .setHeartbeat(new JsonObject().put("x", beats[0]).put("y", beats[1]));
        client = StompClient.create(Vertx.vertx(), options);
        client.errorFrameHandler(VertxStomp::error);
        client.connect().onSuccess(made -> {
            connection = made;
            made.closeHandler(ended -> DriverLines.report("disconnected"));
            made.connectionDroppedHandler(ended -> DriverLines.report("heartbeat-timeout"));
            made.exceptionHandler(DriverLines::reportError);
            DriverLines.report("connected", "headers", Map.of());
        }).onFailure(problem -> {
            DriverLines.reportError(problem);
            DriverLines.report("disconnected");
        });
    }

    private static void error(Frame frame) {
        DriverLines.report("error", "headers", frame.getHeaders(), "body", String.valueOf(frame.getBody()));
    }

    private static void listen(Frame frame) {
        byte[] body = frame.getBody() == null ? new byte[0] : frame.getBody().getBytes();
        try {
            DriverLines.reportMessage(frame.getHeaders(), body, () -> received.add(frame));
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    // Its methods may be called from any thread; a future of a receipt is not waited for.
    private static void subscribe(DriverLines.Asked asked) {
        Future<String> done = connection.subscribe(asked.text("destination"), asked.headers("id", asked.text("id"), "ack", asked.text("ack")), frame -> listener.execute(() -> listen(frame)));
        done.onFailure(DriverLines::reportError);
    }

    private static void settle(DriverLines.Asked asked, boolean ok) {
        String id;
        synchronized (DriverLines.class) {
            Frame message = received.get(asked.number("message") - 1);
            id = message.getAck() != null ? message.getAck() : message.getHeader("message-id");
        }
        String transaction = asked.text("transaction");
        if (transaction == null) (ok ? connection.ack(id) : connection.nack(id)).onFailure(DriverLines::reportError);
        else (ok ? connection.ack(id, transaction) : connection.nack(id, transaction)).onFailure(DriverLines::reportError);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, DriverLines.Action<DriverLines.Asked>> commands = Map.ofEntries(
                entry("connect", VertxStomp::connect),
                entry("subscribe", VertxStomp::subscribe),
                entry("unsubscribe", asked -> connection.unsubscribe(asked.text("destination"), asked.headers("id", asked.text("id")))),
                entry("send", asked -> connection.send(
                        asked.text("destination"),
                        asked.headers("content-type", asked.text("content_type"), "transaction", asked.text("transaction")),
                        Buffer.buffer(asked.content()))),
                entry("ack", asked -> settle(asked, true)),
                entry("nack", asked -> settle(asked, false)),
                entry("begin", asked -> connection.beginTX(asked.text("transaction"))),
                entry("commit", asked -> connection.commit(asked.text("transaction"))),
                entry("abort", asked -> connection.abort(asked.text("transaction"))),
                entry("disconnect", asked -> connection.disconnect()));
        DriverLines.serve("Vert.x STOMP", StompClient.class, commands);
    }
}
