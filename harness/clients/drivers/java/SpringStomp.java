// The driver of Spring's STOMP client over TCP: see docs/reference/client-drivers.md.
import static java.util.Map.entry;

import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.messaging.converter.SimpleMessageConverter;
import org.springframework.messaging.simp.stomp.ConnectionLostException;
import org.springframework.messaging.simp.stomp.ReactorNettyTcpStompClient;
import org.springframework.messaging.simp.stomp.StompCommand;
import org.springframework.messaging.simp.stomp.StompFrameHandler;
import org.springframework.messaging.simp.stomp.StompHeaders;
import org.springframework.messaging.simp.stomp.StompSession;
import org.springframework.messaging.simp.stomp.StompSessionHandlerAdapter;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

final class SpringStomp {
    private static volatile StompSession session;
    private static String version;
    private static final List<StompHeaders> received = new ArrayList<>();
    private static final Map<String, StompSession.Subscription> subscriptions = new ConcurrentHashMap<>();

    private static final class Handler extends StompSessionHandlerAdapter {
        @Override
        public void afterConnected(StompSession made, StompHeaders headers) {
            session = made;
            DriverLines.report("connected", "headers", flat(headers));
        }

        @Override
        public Type getPayloadType(StompHeaders headers) {
            return byte[].class;
        }

        @Override
        public void handleFrame(StompHeaders headers, Object payload) {
            DriverLines.report("error", "headers", flat(headers), "body", payload == null ? "" : new String((byte[]) payload));
        }

        @Override
        public void handleException(StompSession made, StompCommand command, StompHeaders headers, byte[] payload, Throwable problem) {
            DriverLines.reportError(problem);
        }

        @Override
        public void handleTransportError(StompSession made, Throwable problem) {
            DriverLines.reportError(problem);
            if (problem instanceof ConnectionLostException) DriverLines.report("disconnected");
        }
    }

    private static final class Listener implements StompFrameHandler {
        @Override
        public Type getPayloadType(StompHeaders headers) {
            return byte[].class;
        }

        @Override
        public void handleFrame(StompHeaders headers, Object payload) {
            try {
                DriverLines.reportMessage(flat(headers), payload == null ? new byte[0] : (byte[]) payload, () -> received.add(headers));
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static Map<String, String> flat(StompHeaders headers) {
        return new LinkedHashMap<>(headers.toSingleValueMap());
    }

    private static StompHeaders headers(Map<String, String> values) {
        StompHeaders headers = new StompHeaders();
        values.forEach(headers::set);
        return headers;
    }

    private static void connect(DriverLines.Asked asked) {
        version = asked.text("version");
        ThreadPoolTaskScheduler timers = new ThreadPoolTaskScheduler();
        timers.initialize();
        ReactorNettyTcpStompClient client = new ReactorNettyTcpStompClient(asked.text("host"), asked.number("port"));
        client.setMessageConverter(new SimpleMessageConverter());
        client.setTaskScheduler(timers);
        int[] beats = asked.pair("heart_beat");
        client.setDefaultHeartbeat(new long[] {beats[0], beats[1]});
        StompHeaders login = headers(asked.headers("host", asked.text("vhost"), "login", asked.text("login"), "passcode", asked.text("passcode")));
        login.setAcceptVersion(version);
        client.connectAsync(login, new Handler()).exceptionally(problem -> {
            DriverLines.reportError(problem);
            DriverLines.report("disconnected");
            return null;
        });
    }

    private static void subscribe(DriverLines.Asked asked) {
        Map<String, String> values = asked.headers("destination", asked.text("destination"), "id", asked.text("id"), "ack", asked.text("ack"));
        subscriptions.put(asked.text("id"), session.subscribe(headers(values), new Listener()));
    }

    private static void send(DriverLines.Asked asked) {
        Map<String, String> values = asked.headers("destination", asked.text("destination"), "content-type", asked.text("content_type"));
        session.send(headers(values), asked.content());
    }

    private static void settle(DriverLines.Asked asked, boolean consumed) {
        StompHeaders message;
        synchronized (DriverLines.class) {
            message = received.get(asked.number("message") - 1);
        }
        StompHeaders ack = new StompHeaders();
        if (version.equals("1.2")) {
            ack.setId(message.getAck());
        } else {
            ack.setMessageId(message.getMessageId());
            ack.setSubscription(message.getSubscription());
        }
        session.acknowledge(ack, consumed);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, DriverLines.Action<DriverLines.Asked>> commands = Map.ofEntries(
                entry("connect", SpringStomp::connect),
                entry("subscribe", SpringStomp::subscribe),
                entry("unsubscribe", asked -> subscriptions.get(asked.text("id")).unsubscribe()),
                entry("send", SpringStomp::send),
                entry("ack", asked -> settle(asked, true)),
                entry("nack", asked -> settle(asked, false)),
                entry("disconnect", asked -> session.disconnect()));
        DriverLines.serve("Spring's STOMP client", StompSession.class, commands);
    }
}
