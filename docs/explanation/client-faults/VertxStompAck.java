// io.vertx:vertx-stomp 5.0.7: an ACK on a 1.1 connection has no message-id and no subscription.
//
// The client is connected with version 1.1. connection.ack(id) writes an id header, which only 1.2 has, so a
// broker answers with ERROR. The same happens with NACK, and with version 1.0.
//
// STOMP 1.1, ACK: "ACK has two REQUIRED headers: message-id, which MUST contain a value matching the
// message-id for the MESSAGE being acknowledged and subscription".
//
// Cause: src/main/java/io/vertx/ext/stomp/impl/StompClientConnectionImpl.java#L502-L518.
// Run with vertx-stomp 5.0.7 and its dependencies on the class path: java -cp 'lib/*' VertxStompAck.java
import io.vertx.core.Vertx;
import io.vertx.ext.stomp.StompClient;
import io.vertx.ext.stomp.StompClientOptions;
import java.net.ServerSocket;
import java.util.Scanner;

public class VertxStompAck {
    public static void main(String[] arguments) throws Exception {
        ServerSocket server = new ServerSocket(0);
        StompClientOptions options = new StompClientOptions().setHost("127.0.0.1").setPort(server.getLocalPort());
        options.setHeartbeat(new io.vertx.core.json.JsonObject().put("x", 0).put("y", 0));
        StompClient.create(Vertx.vertx(), options).connect().onSuccess(connection -> connection.ack("m1"));
        var socket = server.accept();
        Scanner frames = new Scanner(socket.getInputStream()).useDelimiter("\0");
        frames.next();
        socket.getOutputStream().write("CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\0".getBytes());
        String ack = frames.next().strip();
        System.out.println(ack);
        System.exit(ack.contains("message-id:m1") ? 0 : 1);
    }
}
