import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.Plugin;

/** One node with the plugins of its class path, and perhaps the one that -Dsluice.plugin names: java -cp 'lib/*:classes' OpenSearchNode HOME PORT [setting=value …] */
public class OpenSearchNode extends Node {
    OpenSearchNode(Environment environment) {
        super(environment, plugins(), true);
    }

    private static List<Class<? extends Plugin>> plugins() {
        List<Class<? extends Plugin>> found = new ArrayList<>(List.of(
            org.opensearch.transport.Netty4Plugin.class,
            org.opensearch.index.reindex.ReindexPlugin.class,
            org.opensearch.analysis.common.CommonAnalysisPlugin.class,
            org.opensearch.ingest.common.IngestCommonPlugin.class,
            org.opensearch.painless.PainlessPlugin.class,
            org.opensearch.index.mapper.MapperExtrasPlugin.class));
        String more = System.getProperty("sluice.plugin");
        try {
            if (more != null) found.add(Class.forName(more).asSubclass(Plugin.class));
        } catch (ClassNotFoundException error) { throw new IllegalStateException(error); }
        return found;
    }

    public static void main(String[] words) throws Exception {
        Path home = Paths.get(words[0]).toAbsolutePath();
        Path config = Files.createDirectories(home.resolve("config"));
        Settings.Builder settings = Settings.builder()
            .put("path.home", home.toString()).put("path.data", home.resolve("data").toString())
            .put("cluster.name", "sluice-tests").put("node.name", "node").put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1").put("http.port", words[1]).put("transport.port", "0")
            .put("cluster.routing.allocation.disk.threshold_enabled", false);
        for (int word = 2; word < words.length; word++) {
            String[] pair = words[word].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        Environment environment = InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), config, () -> "node");
        Node node = new OpenSearchNode(environment);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try { node.close(); } catch (Exception error) { error.printStackTrace(); }
        }));
        node.start();
        System.out.println("READY");
        new CountDownLatch(1).await();
    }
}
